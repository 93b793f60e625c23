"""Methods: what a student is trained to minimise."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mptctl.methods.criteria import build_criterion
    from mptctl.methods.table import build_method
else:
    # Only where they are asked for, because they import torch, and `rows` beside them is to be read without
    # that.
    def __getattr__(name: str) -> object:
        if name == "build_method":
            from mptctl.methods.table import build_method

            return build_method
        if name == "build_criterion":
            from mptctl.methods.criteria import build_criterion

            return build_criterion
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["build_criterion", "build_method"]
