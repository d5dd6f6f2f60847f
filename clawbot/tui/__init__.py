"""The terminal screen: reads events and calls an open runtime (clawbot/api.py)."""
