"""What other Python programs use: arrays compared, models loaded, and flips watched in training loops of theirs."""

from mptctl.integrations.flip_monitor import FlipMonitor

__all__ = ["FlipMonitor"]
