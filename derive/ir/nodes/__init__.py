"""What is asked of a program's nodes."""
