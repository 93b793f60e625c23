"""Show documents in a terminal, as Markdown, as LaTeX and as an HTML page; show progress and provenance."""
