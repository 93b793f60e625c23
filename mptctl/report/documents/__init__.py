"""Results as documents: each one's sentences and tables, and the files that it is written to."""
