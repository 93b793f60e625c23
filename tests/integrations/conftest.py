"""One small run for all tests of exported models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.common import made_once
from tests.integrations.exports import trained_run


@pytest.fixture(scope="session")
def exports_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with the runs `old` and `new` of the digits; not to be written to."""
    return made_once("old-new", trained_run, tmp_path_factory.mktemp("exports") / "runs")
