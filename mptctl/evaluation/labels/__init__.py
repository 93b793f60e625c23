"""Flips of traffic from few labels: which rows to label, and what their labels say."""
