"""Lists the pictures of a source: folders of classes, tables of paths, tar shards."""
