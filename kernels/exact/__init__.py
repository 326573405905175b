"""Exact numbers on the host, by integers: limbs, expansions, rounding once."""
