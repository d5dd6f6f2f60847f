"""One running conversation. Front ends submit text to `agent.py` and read `events.py`; all else here is inside."""
