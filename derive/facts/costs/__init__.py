"""What a program costs, counted."""
