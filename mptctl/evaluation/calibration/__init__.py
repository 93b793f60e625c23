"""Calibration of one model: errors of its confidence, bins, and the temperature that mends it."""
