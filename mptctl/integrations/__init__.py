"""For other Python programs: arrays compared, models loaded, flips watched in training loops."""

from mptctl.integrations.flip_monitor import FlipMonitor

__all__ = ["FlipMonitor"]
