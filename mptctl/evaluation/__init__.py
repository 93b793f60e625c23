"""What a replacement breaks: predictions of two models in, flips, statistics and the gate's answer out."""
