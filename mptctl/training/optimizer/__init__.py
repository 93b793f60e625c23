"""Optimizers, learning rates, averages of weights, and the guard against non-finite numbers."""
