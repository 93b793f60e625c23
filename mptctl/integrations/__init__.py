"""The interface for Python programs: compares arrays, loads models, counts flips in training loops."""

from mptctl.integrations.flip_monitor import FlipMonitor

__all__ = ["FlipMonitor"]
