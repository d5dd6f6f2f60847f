"""Memory backends besides the builtin index, and what is above all of them: the fallback and the guard."""
