"""The commands of the panel "Gate a release"."""

from __future__ import annotations

from mptctl.cli.command import command_group
from mptctl.cli.jobs import job


@job("evaluation.evaluate_request:EvaluateRequest", "evaluate:evaluate")
def evaluate() -> None:
    """Show what a replacement breaks, and gate its release.

    Prints the flip table over test samples of the old classes; with several NEW, one row and one verdict
    for each. With one model alone: accuracy, calibration errors, likelihood and Brier score over test
    samples of the classes that it knows.

    Exits with 3 where a limit is exceeded, where the rate that it limits is not defined, or where
    --confidence leaves it undecided; with any limit also where OLD and NEW are
    the same model, where one of them comes from an unfinished run, where OLD is right by no more than
    chance, or where its class names are exchanged.
    Where OLD does not say which classes it knows, the labels that it predicts count as old.

    Examples:

        mptctl evaluate old mpt-kl --max-nfr 2 --report flips.html

        mptctl evaluate old.npz new.csv --max-nfr 2 --confidence 0.95 --json

        mptctl evaluate old.npz new.csv --by country --metadata meta.csv

        mptctl evaluate old no-treatment mpt-kl mpt-lm --max-nfr 2

        mptctl evaluate mpt-kl --temperature fit --report calibration.html

        mptctl evaluate old.npz new.npz --labels labelled.csv --max-flip-rate 2
    """


@job("evaluation.labels.request:DisagreeRequest", "disagree:disagree")
def disagree() -> None:
    """Draw the rows to label: those that two models predict apart.

    Only samples whose predictions differ can flip. Predictions need no labels. Prints how many differ, and
    with --limit how many labels decide that limit; --out writes the rows to label, --page a page to label
    them on.

    Examples:

        mptctl disagree old.parquet new.parquet --limit 2 --out to_label.csv

        mptctl disagree old mpt-kl --pictures ~/incoming --draw 300 --page label.html
    """


@job("evaluation.evaluate_request:GateInitRequest", "gate_init:write_gate_file")
def init() -> None:
    """Write a commented gate file with the limits that this comparison just keeps.

    Examples:

        mptctl gate init old mpt-kl --by class
    """


gate = command_group("Write a gate file to begin with (gate init).", init=init)


@job("evaluation.evaluate_request:HistoryRequest", "history:show_history")
def history() -> None:
    """Show negative flips of past releases, and looks at labels.

    Reads the file that `mptctl evaluate --append-history` writes: a table.

    Examples:

        mptctl evaluate old.npz new.npz --append-history releases.jsonl

        mptctl history releases.jsonl
    """


@job("inference.requests:PredictRequest", "predict:predict_folder")
def predict() -> None:
    """Write a model's predictions for pictures without labels.

    Writes id, pred and confidence; .npz and .parquet also hold logits and classes. With a column `label`
    added, evaluate reads the file.

    Examples:

        mptctl predict mpt-kl ~/incoming --out answers.csv

        mptctl predict mpt-kl ~/incoming --out answers.parquet --on-bad quarantine
    """
