"""What has a name, and is computed once."""
