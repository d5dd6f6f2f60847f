"""The index on disk: one SQLite file for each agent, which can be deleted at any time."""
