"""Data that come with the package, and how they are read; README.md beside this has sources and licences."""
