"""The schedule: which jobs there are, when each is due, and what was run already."""
