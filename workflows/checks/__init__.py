"""Finds what is wrong with an archive."""
