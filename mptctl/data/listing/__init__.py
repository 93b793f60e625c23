"""Pictures as they are listed: folders of classes, tables of paths, tar shards."""
