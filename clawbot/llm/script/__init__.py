"""What the scripted model (`clawbot/llm/scripted.py`) is made of: reading a script, matching requests, replying, and
the doors to it (in process, behind litellm, over HTTP)."""
