"""mptctl trains, measures and gates image classifiers that replace the one in production."""

__version__ = "0.1.0"
