"""Searches the index: from the request to the results, with the ranking of both profiles."""
