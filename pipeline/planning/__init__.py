"""What a reduction will do is decided before it starts: pure functions, and the plan they make."""
