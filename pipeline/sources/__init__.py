"""What has chunks and can be reduced: how it is opened, and what is stored of it."""
