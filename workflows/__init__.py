"""Jobs that people run."""
