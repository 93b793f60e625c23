"""The comparison of two models: predictions in, flips, statistics and the gate's answer out."""
