"""What the user attaches to a message by `@`: files, ranges of lines, folders, pictures."""
