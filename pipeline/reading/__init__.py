"""What is read for which outputs, and the threads that read it."""
