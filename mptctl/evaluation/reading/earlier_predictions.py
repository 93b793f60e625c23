"""How predictions that `predict` and `evaluate --save-predictions` wrote are known, so that they may be replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mptctl.evaluation.reading.readers import READERS, headers
from mptctl.files.output_kinds import OutputKind


def _has_columns(needed: set[str], possible: set[str]) -> Callable[[Path], bool]:
    """Tell whether a file has these columns and no others: to one with others somebody has added work."""

    def known(path: Path) -> bool:
        if path.suffix.lower() not in READERS:
            return False
        try:
            found = set(headers(path))
        except OSError:
            raise
        except Exception:  # whatever zipfile, csv and pyarrow raise of what is no file of theirs
            return False
        return needed <= found <= needed | possible

    return known


ANSWERS = OutputKind(
    "predictions without labels", _has_columns({"id", "pred", "confidence"}, {"logits", "classes"})
)
SAVED = OutputKind("predictions", _has_columns({"id", "label", "pred"}, {"logits", "classes"}))
