"""What is known of a value, a length and a cost."""
