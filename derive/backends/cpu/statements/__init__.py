"""A program as statements of one kind, each over all places of its axes, and what makes them cheaper."""
