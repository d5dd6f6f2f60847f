"""What `clawbot doctor` looks at, by subject."""
