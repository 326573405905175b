"""Decode stored chunks on the device: from its memory into its memory."""
