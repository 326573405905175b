"""OpenCL devices: what they are and claim, how they are found and split."""
