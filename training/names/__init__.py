"""The two-layer names network: embedding, linear, batch normalisation, tanh, linear, cross-entropy."""
