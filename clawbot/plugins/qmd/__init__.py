"""The backend `qmd`: a program of its own searches the notes."""
