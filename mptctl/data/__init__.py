"""Sources, splits and the plan of what is seen when."""
