"""Stores hold the bytes of arrays: addresses, files, objects behind a network, requests."""
