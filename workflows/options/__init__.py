"""Options as people write them on the command line and in job files."""
