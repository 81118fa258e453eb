"""The chain rule over equations."""
