"""The tools that the model can call, and their limits."""
