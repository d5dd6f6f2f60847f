"""A language model inside: GGUF files in the home, and llama.cpp's server for one of them in a process of its own."""
