"""Make a document of each kind of result, with its sentences, tables and figures, and write it to files."""
