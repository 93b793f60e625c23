"""`mptctl pack`: copies the pictures of any source into folders of classes or tar shards."""
