"""Mutants: single wrong expressions that the suite has to notice."""
