"""What people look at: a comparison in the terminal, as Markdown, figures or one HTML page; a run's progress."""
