"""The planner for sums of products: what is multiplied first, what is shared, what is never made."""
