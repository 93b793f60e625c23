"""Methods of a study that are tuned before they are trained: their trials, and the record of the choice."""
