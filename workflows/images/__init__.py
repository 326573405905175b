"""OME-Zarr images: their metadata, pyramids, and tables of segmentations."""
