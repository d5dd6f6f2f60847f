"""The settings: their schema, their sources, and the program's paths."""
