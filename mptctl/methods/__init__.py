"""Methods: what a student is trained to minimise."""
