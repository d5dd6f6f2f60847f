"""The ground floor for text: scripts, words, stems, tokens, globs, cleaning and secrets, each once. Without I/O."""
