"""What chunkfold keeps on disk that it can make again: trusted folders, checked entries."""
