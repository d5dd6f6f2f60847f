"""Models that order the results of a search."""
