"""Where stored bytes are: addresses, files, objects behind a network, requests."""
