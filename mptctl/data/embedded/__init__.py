"""Data that come with the package, and their reading; README.md in this folder has sources and licences."""
