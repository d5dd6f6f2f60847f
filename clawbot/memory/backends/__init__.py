"""Memory backends besides the builtin index, and what stands above all of them: the fallback and the guard."""
