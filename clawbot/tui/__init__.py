"""The terminal screen: reads events, calls Runtime, knows nothing below it."""
