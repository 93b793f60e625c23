"""The work of the verbs that do more than parse, call and show."""
