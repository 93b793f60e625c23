"""`mptctl history`: read the releases, and print them."""

from __future__ import annotations

from mptctl.cli.show import show
from mptctl.errors import DataError
from mptctl.evaluation.evaluate_request import HistoryRequest
from mptctl.evaluation.gate.history import read_history
from mptctl.report.documents.history import history_document


def show_history(asked: HistoryRequest) -> None:
    """Print the releases of a history file; DataError where it holds none, or is damaged."""
    history = read_history(asked.file)
    if not (history.releases or history.looks):
        raise DataError(f"{asked.file}: holds no release; evaluate --append-history adds one")
    show(history, history_document, as_json=asked.as_json)
