"""How the index is searched: from the request to the result, and the ranking in both profiles."""
