"""The page's examples of methods, criteria and networks of one's own, and what their tests share."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mptctl.names import PLUGINS
from mptctl.recipe import own
from tests.common import ROOT

PAGE = (ROOT / "docs" / "own.md").read_text(encoding="utf-8")
METHOD, CRITERION, NETWORK = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SHORT = [f"--set={key}" for key in ("optim.max_steps=4", "runtime.device=cpu", "runtime.threads=1")]
IMPORTS = "import mptctl\nfrom torch.nn.functional import cross_entropy\n"


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """Every test begins without a plugin."""
    forget()
    yield
    forget()


def forget() -> None:
    os.environ.pop(PLUGINS, None)
    own._OWN.clear()
    own._RUN.clear()
    own._offered.cache_clear()


@pytest.fixture
def muscle(tmp_path: Path) -> Path:
    file = tmp_path / "muscle.py"
    file.write_text(METHOD)
    return file


def function(body: str, name: str = "bad", arguments: str = "z, y, old, ref, settings") -> str:
    """The file of a method."""
    return f"{IMPORTS}\n@mptctl.method({name!r})\ndef bad({arguments}):\n    {body}\n"
