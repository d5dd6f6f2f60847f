"""The base package for text: scripts, words, stems, tokens, globs, cleaning and secrets. Without I/O."""
