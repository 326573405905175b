"""OpenCL devices: descriptions and capabilities; `host` finds and splits them."""
