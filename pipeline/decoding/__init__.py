"""Stored bytes become elements, in memory that is given."""
