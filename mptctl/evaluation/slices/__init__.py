"""Parts of the test set: the flip table of each, by columns of a file or derived ones, and their rank."""
