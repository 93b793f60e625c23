"""Media: terminal, Markdown, LaTeX, page; how numbers and tables look in each of them."""
