"""Calls functions of one's own, and refuses in the first call what no loss may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mptctl.errors import MptctlError, UsageError
from mptctl.methods.method import COUNTS
from mptctl.recipe.own import ARGUMENTS, Own, describe_failure


@dataclass(frozen=True)
class Checked:
    """The function of a method or criterion with its settings; its first call is checked.

    Attributes:
        own: the part.
        settings: its settings, as its own model.
        called: holds an item once the function was called.
    """

    own: Own
    settings: Any
    called: list[bool] = field(default_factory=list, compare=False)

    @classmethod
    def of(cls, own: Own, settings: dict[str, Any]) -> Checked:
        """The function of a part with the settings that a recipe has."""
        return cls(own, own.settings.model_validate(settings))

    def __call__(self, logits: Tensor, target: Tensor, *teachers: Tensor | None) -> Any:
        """Call the function on logits, labels and, for a method, logits of teachers.

        Raises:
            UsageError: the function fails; or in the first call, it changes its arguments, or returns
                something else than one differentiable number a row for each term.
        """
        own = self.own
        if self.called:
            return self._call(logits, target, *teachers)
        # No leaf, which autograd would refuse to change in words of its own.
        given = [logits.clone(), target, *teachers]
        before = [None if each is None else each.detach().clone() for each in given]
        result, what = self._call(*given), f"{own.kind} {own.name}"
        for name, was, now in zip(ARGUMENTS["method"], before, given, strict=False):
            if was is not None and now is not None and bool(((was != now) & ~was.isnan()).any()):
                raise UsageError(f"{what}: changes {name} in place, which others read too; compute new ones")
        _refuse_wrong_terms(what, self.terms(result), logits)
        self.called.append(True)
        return result

    def terms(self, result: Any) -> Any:
        """The terms by name of what the function returned."""
        return result if self.own.kind == "method" else {"its loss": result}

    def _call(self, *given: Tensor | None) -> Any:
        """Call the function; UsageError that names the line where it fails."""
        own = self.own
        try:
            return own.function(*given, self.settings)
        except MptctlError:
            raise
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"{own.kind} {own.name}: {describe_failure(error, own.file)}; in {own.file}"
            ) from error


def _refuse_wrong_terms(what: str, terms: object, logits: Tensor) -> None:
    """Refuse what is no mapping of names to one differentiable number a row."""
    if not isinstance(terms, Mapping) or not terms:
        raise UsageError(f"{what}: must return a dict of named terms, got {type(terms).__name__}")
    for name, rows in terms.items():
        where = f"{what}: {name}"
        if name in ("loss", *COUNTS.values()) or not isinstance(name, str):
            raise UsageError(f"{where}: is no name for a term; take another one")
        if not isinstance(rows, Tensor) or rows.shape != logits.shape[:1]:
            got = f"shape {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
            raise UsageError(
                f"{where}: must be one number a row, shape {tuple(logits.shape[:1])}, got {got}; leave means "
                "and sums over rows to the loop"
            )
        if torch.is_grad_enabled() and logits.requires_grad and not rows.requires_grad:
            raise UsageError(
                f"{where}: is not differentiable in the logits; leave out detach, argmax and item"
            )
