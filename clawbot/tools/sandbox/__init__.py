"""Where shell commands run: behind walls that the system puts up (bubblewrap, Seatbelt), not this program."""
