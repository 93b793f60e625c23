"""What each sample counts, as the counting query reads it: a column beside the predictions."""

from __future__ import annotations

from dataclasses import dataclass

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.workspace import current

WEIGHT = "try_cast(cost.s0 AS DOUBLE)"
# Weights whose squares a float holds; 0 is one, too. Of NaN, infinity and what is no number this is false.
SOUND = f"coalesce({WEIGHT} = 0 OR {WEIGHT} BETWEEN 1e-100 AND 1e100, false)"


@dataclass(frozen=True)
class Weights:
    """What each sample counts, as a relation of DuckDB.

    Attributes:
        name: the column and its file, for messages.
        relation: SQL: `id` and the weight `s0`, both as text, each id once.
    """

    name: str
    relation: str

    @property
    def sums(self) -> list[str]:
        """SQL: what `Cells.weights` holds, and how many samples have no weight."""
        value = f"CASE WHEN {SOUND} THEN {WEIGHT} ELSE 0 END"
        return [
            f"fsum({value}) AS weight_0",
            f"fsum({value} * {value}) AS weight_1",
            f"max({value}) AS weight_2",
            f"count(*) FILTER (NOT {SOUND}) AS no_weight",
        ]

    def refused(self, joined: str, base: str, count: int) -> DataError:
        """The error of weights that are missing or none, with the first three by id."""
        rows = current().fetch(
            f"SELECT {base}.id::VARCHAR, cost.s0 FROM {joined} WHERE NOT {SOUND} ORDER BY 1 LIMIT 3"
        )
        named = first(f"{sample}: {value or 'missing'}" for sample, value in rows)
        more = f" and {count - len(rows)} more" if count > len(rows) else ""
        return DataError(
            f"--weight {self.name}: {count} samples have no weight ({named}{more}); write a finite number of "
            "0 or more for each"
        )
