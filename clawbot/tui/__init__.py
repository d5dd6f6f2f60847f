"""The terminal screen: reads events, calls the parts of an open runtime (clawbot/api.py)."""
