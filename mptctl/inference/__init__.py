"""Running trained models: forward passes, predictions, and what `import` took in."""
