"""What moves the weights: optimizers and rates, averages of weights, and the guard of finite numbers."""
