"""The reductions that come with chunkfold, by families, and their finishes; `named` finds them."""
