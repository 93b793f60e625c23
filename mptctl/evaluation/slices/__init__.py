"""Parts of the test set: the flip table of each, by columns of a file or of a comparison's own, and the worst ones."""
