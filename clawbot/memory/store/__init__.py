"""The index on disk: one SQLite file per agent, which may be deleted at any time."""
