"""Sources are arrays that have chunks and can be reduced; they describe how they are stored."""
