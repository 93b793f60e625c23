"""Several runs that belong together, from one command."""
