"""The memory index: finds notes and conversations by words and by embedding similarity."""
