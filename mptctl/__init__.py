"""mptctl trains, measures and gates image classifiers that replace the one in production."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public names and their modules. A module is imported when its name is first used, so that `import mptctl`
# stays light. `__init__.pyi` says the same to type checkers.
_MODULE_OF_NAME = {
    "Report": "mptctl.integrations.api",
    "disagree": "mptctl.integrations.labels",
    "build_method": "mptctl.methods",
    "evaluate": "mptctl.integrations.api",
    "criterion": "mptctl.recipe.own",
    "load": "mptctl.integrations.api",
    "method": "mptctl.recipe.own",
    "network": "mptctl.recipe.own",
    "runs": "mptctl.integrations.api",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used; AttributeError for any other name."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'mptctl' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF_NAME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF_NAME})
