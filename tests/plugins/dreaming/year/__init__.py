"""A year of notes of an invented person, and what 52 dreams make of it."""
