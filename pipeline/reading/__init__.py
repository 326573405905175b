"""Decide which boxes of leaves are read for which outputs, and read them by threads."""
