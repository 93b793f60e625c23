"""What is said of a choice: why the row was chosen, what was passed over, and what the estimate leaves out."""

from __future__ import annotations

from mptctl.report.documents.choice import choice_document
from mptctl.report.media.markdown import document_markdown
from mptctl.studies.comparison import Choice

ROW = {"method": "no-treatment", "init": "old", "runs": ["r"], "errors": {"values": [(20, 200)]}}
CHOICE = {
    "chosen": "plain-old",
    "fewest_flips": "noref",
    "commands": ["mptctl train-baseline no-treatment --recipe r/recipe.yaml --name plain-old"],
    "seeds": [1],
    "error_of": "noref",
    "rows": [
        ROW | {"name": "plain-old", "nfr": 0.05, "flips": {"values": [(5, 100)]}, "cost": 1.0,
               "within_noise": True, "is_beaten": False},
        ROW | {"name": "noref", "nfr": 0.02, "flips": {"values": [(2, 100)]}, "cost": 2.7,
               "within_noise": True, "is_beaten": False},
    ],
    "estimate": {"nfr": 0.0525, "correction": 0.0025, "chosen_again": 0.8},
    "noise": {"over": "samples", "resamples": 1000, "level": 0.95},
    "notes": ["a note"],
}  # fmt: skip


def said_of(content: dict[str, object]) -> str:
    return document_markdown(choice_document(Choice.model_validate(content)))


def test_the_cheaper_row_is_said_to_be_chosen_over_one_with_fewer_flips() -> None:
    said = said_of(CHOICE)
    assert (
        "Chosen: plain-old, cost 1.00: the cheapest within sampling noise of noref, which has the fewest flips"
        in said
    )
    assert (
        "(NFR 2.00 %, cost 2.70). Within noise does not mean as good: take that one if you can afford it."
        in said
    )
    assert "Expected NFR on other samples: 5.25 %. That is 5.00 %, and 0.25 points for the choice" in said
    assert "80 % of which choose the same row" in said
    assert "What another training would change is not in it." in said
    assert "mptctl train-baseline no-treatment --recipe" in said
    assert "Note: a note." in said


def test_the_row_with_the_fewest_flips_is_chosen_for_that() -> None:
    estimate = {"nfr": 0.02, "correction": -1e-9, "chosen_again": 1.0}
    said = said_of(CHOICE | {"chosen": "noref", "estimate": estimate})
    assert "Chosen: noref, cost 2.70: it has the fewest flips." in said
    assert "and 0.00 points for the choice" in said
