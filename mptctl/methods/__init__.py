"""Training methods: the losses that a student minimises, with their teachers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mptctl.methods.criteria import build_criterion
    from mptctl.methods.table import build_method
else:
    # Imported at first use, because both import torch, and `mptctl.methods.rows` has to load without torch.
    def __getattr__(name: str) -> object:
        if name == "build_method":
            from mptctl.methods.table import build_method

            return build_method
        if name == "build_criterion":
            from mptctl.methods.criteria import build_criterion

            return build_criterion
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["build_criterion", "build_method"]
