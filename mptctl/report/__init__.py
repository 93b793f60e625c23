"""Results as people see them: documents and figures in every medium, a run's progress, trackers."""
