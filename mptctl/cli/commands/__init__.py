"""The commands by the panels of help: each with its help, the record of its options, and its work."""
