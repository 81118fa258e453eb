"""Other sums and maxima: over axes, up to a place, through windows, into places."""
