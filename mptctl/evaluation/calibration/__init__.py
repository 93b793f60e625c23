"""One model's confidence: its calibration errors, its bins, and the temperature that mends it."""
