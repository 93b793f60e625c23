"""Copies of pictures of any source, as folders of classes or as tar shards."""
