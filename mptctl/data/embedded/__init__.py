"""Data that come with the package, and how they are read; sources and licences are in README.md beside this file."""
