"""The living part: one conversation, its turns, its events and its slash commands."""
