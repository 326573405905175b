"""Results as files, and what is read back from them."""
