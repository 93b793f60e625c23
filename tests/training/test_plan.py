"""A run as a plan: sizes and choices, without a picture or a weight."""

from __future__ import annotations

from pathlib import Path

import pytest

from mptctl.data.split import load_split, make_split
from mptctl.errors import UsageError
from mptctl.training.assemble import assemble
from mptctl.training.distributed import ProcessGroup
from mptctl.training.plan import check_request
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CPU, Log, make_folder, short_recipe


def test_a_plan_is_what_the_run_does_and_reads_no_picture(tmp_path: Path) -> None:
    pictures = make_folder(tmp_path / "pictures", classes=4, train=20, val=2, size=8)
    split = make_split("imagefolder", run_root=tmp_path / "runs", data_root=pictures, val_fraction=0.2)
    recipe = short_recipe("optim.batch_size=8", "optim.epochs=3")
    request = RunRequest(recipe, split, tmp_path / "runs" / "run")
    hidden = pictures.rename(tmp_path / "hidden")
    planned = assemble(request, CPU, ProcessGroup())
    assert not (tmp_path / "runs" / "cache").exists()
    hidden.rename(pictures)
    log = Log()
    result = train(request, log)
    assert planned.total_steps == result.steps
    assert planned.train.reason == log.notes[0]
    assert request.val_samples == (result.validation.samples, result.validation.samples_old)


@pytest.mark.parametrize(
    ("overrides", "end"),
    [
        (("optim.schedule=step", "optim.epochs=90"), None),  # two drops: a hundredth
        (("optim.schedule=step", "optim.epochs=180"), "optim.step_epochs=60"),
        (("optim.schedule=step", "optim.epochs=180", "optim.step_epochs=60"), None),
        (("optim.schedule=step", "optim.epochs=8", "optim.milestones=[2,3,4,5]"), "optim.milestones"),
        (("optim.schedule=cosine", "optim.epochs=180"), None),
    ],
)
def test_a_step_schedule_that_ends_too_low_brings_a_warning(
    digits_root: Path, overrides: tuple[str, ...], end: str | None
) -> None:
    request = RunRequest(short_recipe(*overrides), load_split(digits_root), digits_root / "run")
    warnings = [note for note in check_request(request, CPU) if "optim.schedule" in note]
    assert [warning.rpartition("for example ")[2] for warning in warnings] == ([] if end is None else [end])


def test_a_plan_refuses_what_the_run_would(digits_root: Path) -> None:
    split = load_split(digits_root)
    with pytest.raises(UsageError, match="mpt-kl: needs a teacher; name it with --old"):
        check_request(RunRequest(short_recipe(method="mpt-kl"), split, digits_root / "x"), CPU)
    pieces = RunRequest(short_recipe("optim.batch_size=15", "optim.accumulate=2"), split, digits_root / "x")
    check_request(pieces, CPU, 3)
    with pytest.raises(UsageError, match=r"optim\.accumulate 2: leaves fewer than 2 .* each of 4 workers"):
        check_request(pieces, CPU, 4)
