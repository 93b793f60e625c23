"""Figures of results, one file each."""
