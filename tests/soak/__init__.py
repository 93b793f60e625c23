"""A soak: work that is killed at random moments, over and over, and must end as work that was left alone."""
