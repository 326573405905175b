"""Plan a reduction before it starts: pure functions, and the plan that they make."""
