"""The words of each language, as data: a folder for each, and one way to read them (`tables`)."""
