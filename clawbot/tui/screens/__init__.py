"""The screens that lie over the conversation."""
