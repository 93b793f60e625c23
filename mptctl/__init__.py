"""mptctl trains, measures and gates image classifiers that replace the one in production."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What Python programs use, and where it is: imported when first asked for, so that importing stays light.
# `__init__.pyi` says the same to type checkers.
_OFFERED = {
    "Report": "mptctl.integrations.api",
    "evaluate": "mptctl.integrations.api",
    "load": "mptctl.integrations.api",
    "runs": "mptctl.integrations.api",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module 'mptctl' has no attribute {name!r}")
    return getattr(import_module(_OFFERED[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_OFFERED})
