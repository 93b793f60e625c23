"""Two models on the same samples: joined by id, also out of memory, and each sample's answers beside each other."""
