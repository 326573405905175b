"""Outputs that are written whole or not at all, in folders and object stores."""
