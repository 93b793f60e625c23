"""Trackers of experiments, which `--log` names: what a run or a comparison comes to, kept where a team looks at it."""
