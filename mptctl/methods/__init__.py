"""Methods: what a student is trained to minimise."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mptctl.methods.table import build_method
else:
    # Only where it is asked for, because it imports torch, and `rows` beside it is to be read without that.
    def __getattr__(name: str) -> object:
        if name == "build_method":
            from mptctl.methods.table import build_method

            return build_method
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["build_method"]
