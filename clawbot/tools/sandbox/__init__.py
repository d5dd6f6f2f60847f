"""Shell commands in a sandbox of the system (bubblewrap, Seatbelt)."""
