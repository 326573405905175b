"""Arrays that are written region by region, by workers or threads."""
