"""Augmentation of training pictures: operations that are drawn, mixing, and how often a picture is seen."""
