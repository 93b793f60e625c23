"""An old model that does not say which classes it knows: the gate holds whichever of two readings is stricter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mptctl.errors import DataError
from mptctl.evaluation.flip_report import NarrowReading
from mptctl.evaluation.gate.check import failed_condition
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.verdict import Gate, GateCheck

REMEDY = "give --old-classes FILE (or all)"


@dataclass(frozen=True)
class Judged:
    """A gate that holds for both readings, and what a reader of it should know."""

    gate: Gate
    reading: NarrowReading
    warning: str


def judge_both(
    answers: PairedAnswers, silent: frozenset[str], gate: Gate, again: Callable[[PairedAnswers], Gate]
) -> Judged | None:
    """Judge the same samples without the labels that the old model never answers.

    Args:
        answers: with all labels as old classes.
        silent: labels that the old model never answers.
        gate: the verdict on them.
        again: the verdict on other old classes.

    Returns:
        None where there is no such label, or no sample without them.
    """
    narrow = PairedAnswers(answers.pairing, answers.old_classes - silent)
    counts = narrow.counts()
    if not silent or not counts.total:
        return None
    reading = NarrowReading(never_answered=sorted(silent), counts=counts)
    try:
        other = again(narrow)
    except DataError as error:  # a rule of the gate file on what cannot flip in this reading
        refused = failed_condition("old-classes", str(error))
        other = gate.model_copy(update={"passed": False, "answer": "fail", "checks": [refused]})
    name = answers.pairing.models["old"].name
    nfr = f"{100 * counts.negative_flips / counts.total:.2f} % ({counts.negative_flips:,} / {counts.total:,})"
    said = f"{name} never predicts {len(silent)} of the labels ({first(sorted(silent))}); if it does not know them, "
    said += f"NFR is {nfr}"
    if other.passed != gate.passed:
        said += f", and the verdict differs; the stricter one is used; {REMEDY}"
    elif gate.checks:
        said += ", and the verdict is the same"
    return Judged(stricter(gate, other, REMEDY), reading, said)


def stricter(gate: Gate, other: Gate, remedy: str) -> Gate:
    """A gate that passes where both readings do; where the other one alone does not, with a check that says so."""
    if other.passed or not gate.passed:
        return gate
    reasons = "; ".join(check.message for check in other.checks if not check.passed)
    check = GateCheck(
        name="old-classes",
        limit=None,
        value=None,
        tested=None,
        answer=other.answer,
        passed=False,
        message=f"OLD does not say which classes it knows, and on those that it predicts: {reasons}; {remedy}",
    )
    update = {
        "passed": False,
        "answer": other.answer,
        "failed": [*gate.failed, check.name],
        "checks": [*gate.checks, check],
    }
    return gate.model_copy(update=update)
