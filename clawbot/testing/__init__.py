"""What people need who test their own agents and hooks."""
