"""A plan is carried out: here, or on a cluster."""
