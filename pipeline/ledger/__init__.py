"""The ledger: partials that outlive their run, by keys of what they were computed from."""
