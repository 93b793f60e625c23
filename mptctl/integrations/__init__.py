"""Training loops of others: flips against stored old answers after each validation."""

from mptctl.integrations.flip_monitor import FlipMonitor

__all__ = ["FlipMonitor"]
