"""Compares arrays, and groups of arrays."""
