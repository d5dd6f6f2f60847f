"""Brings conversations and notes of other programs along: readers of their formats, and runs that can be undone."""
