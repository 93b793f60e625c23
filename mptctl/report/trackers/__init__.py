"""Trackers of experiments, which `--log` names: runs and comparisons where a team looks at them."""
