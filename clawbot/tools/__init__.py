"""What the model can do, and within which limits."""
