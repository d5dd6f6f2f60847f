"""Cuts documents into the chunks that are searched."""
