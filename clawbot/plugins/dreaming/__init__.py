"""Dreams: proposals for MEMORY.md from the notes since the last one, checked by rule and written after a yes."""
