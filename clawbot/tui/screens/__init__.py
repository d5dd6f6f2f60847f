"""The screens above the conversation."""
