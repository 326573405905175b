"""Workers on Dask clusters: how they start, whether they live, what they tell."""
