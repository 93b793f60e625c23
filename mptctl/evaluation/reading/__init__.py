"""Predictions of any program as rows: read, checked, and refused where they can be misread."""
