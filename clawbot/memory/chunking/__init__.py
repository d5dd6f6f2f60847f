"""Cuts documents into the pieces that are searched."""
