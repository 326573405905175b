"""What runs on a worker: its device, and the folding of a block."""
