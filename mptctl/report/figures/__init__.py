"""Figures of results, drawn with matplotlib; one file for each kind of result."""
