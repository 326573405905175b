"""Text, tables, progress and pictures in terminals."""
