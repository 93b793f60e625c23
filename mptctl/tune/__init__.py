"""The search for k and other settings on held-out data, with Ray Tune."""
