"""The checks of `clawbot doctor`, by subject."""
