"""One running conversation: its turns, events and slash commands."""
