"""Settings: their schema, where they come from and where things lie."""
