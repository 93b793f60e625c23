"""Scripts that developers run from the folder above: `python -m tools.draw_figures`."""
