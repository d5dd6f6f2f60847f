"""What the model sees, as pure decisions."""
