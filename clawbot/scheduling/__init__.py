"""The schedule: its jobs, when each is due, and the record of their runs."""
