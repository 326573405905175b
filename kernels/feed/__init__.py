"""Read files into a device's memory: a piece is uploaded while the next is read."""
