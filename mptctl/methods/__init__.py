"""Methods: what a student is trained to minimise."""

from mptctl.methods.table import build_method

__all__ = ["build_method"]
