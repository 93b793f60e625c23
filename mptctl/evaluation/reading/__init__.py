"""Predictions of any program as rows: files and arrays are read, checked, and refused where they can be misread."""
