"""Two models on the same samples: joined by id, also out of memory, and their answers side by side."""
