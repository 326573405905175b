"""Bring bytes of files into a device's memory: read a piece, upload it, read the next meanwhile."""
