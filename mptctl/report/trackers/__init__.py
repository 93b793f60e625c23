"""Log runs and comparisons to trackers of experiments, which `--log` names."""
