"""Who wants to know how a run goes: the terminal, a sweep, a test."""

from __future__ import annotations

from typing import Protocol

from mptctl.models.metrics_log import MetricsLine
from mptctl.training.result import FitResult


class Observer(Protocol):
    """What wants to know how a run goes: the terminal, a sweep, a test."""

    def decoding(self, done: int, total: int) -> None:
        """Before a run begins, its pictures are read into memory: ``done`` of ``total`` are."""
        ...

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """A run begins at ``step`` of ``total_steps``; ``notes`` say what was chosen and why."""
        ...

    def line(self, line: MetricsLine) -> None:
        """A line of ``metrics.jsonl`` was written."""
        ...

    def validating(self, done: int, total: int) -> None:
        """An epoch is validated: ``done`` of ``total`` pictures are."""
        ...

    def finished(self, result: FitResult) -> None:
        """The run has come to its end."""
        ...

    def closed(self) -> None:
        """The run is over, whether it came to its end or not."""
        ...


class Silent:
    """Says nothing."""

    def decoding(self, done: int, total: int) -> None:
        """Nothing."""

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Nothing."""

    def line(self, line: MetricsLine) -> None:
        """Nothing."""

    def validating(self, done: int, total: int) -> None:
        """Nothing."""

    def finished(self, result: FitResult) -> None:
        """Nothing."""

    def closed(self) -> None:
        """Nothing."""
