"""Augmentation of training pictures: random operations, mixing of pairs, and repeated rare classes."""
