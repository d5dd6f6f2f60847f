"""Splits documents into the chunks that are searched."""
