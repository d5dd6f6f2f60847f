"""clawbot: a local AI agent in the terminal that does not forget."""

__version__ = "0.3.0"
