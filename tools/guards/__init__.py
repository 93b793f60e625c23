"""The guards of the program against faults, by row of the fault table; docs/reliability.md repeats it in short."""

from __future__ import annotations

from tools.guards.comparisons import COMPARISONS
from tools.guards.guard import Guard as Guard
from tools.guards.guard import Patch as Patch
from tools.guards.runs import RUNS

GUARDS: dict[int, Guard] = dict(sorted({**COMPARISONS, **RUNS}.items()))
