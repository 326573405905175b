"""Caches on disk, all of which can be made again: trusted folders, checked entries."""
