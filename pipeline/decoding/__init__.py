"""Decode stored bytes into given memory: codecs, shards, many chunks by one call."""
