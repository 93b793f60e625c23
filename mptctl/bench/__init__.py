"""Speed on this machine, beside what a user would use instead, and the floor."""
