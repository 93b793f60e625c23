"""Files of teacher logits and the cache of them among several runs: its size, and work that is done once."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.data.split import Split, load_split
from mptctl.errors import UsageError
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.names import Role
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.cache_files import round_logits
from tests.common import short_recipe
from tests.forked import PROCESSES, process_of
from tests.teachers.conftest import BOTH, OLD, cached, files, opened, teachers_of, update


def bytes_of_a_run(split: Split, loader: Loader) -> int:
    """Of two epochs: for each picture and teacher a header and its logits in half precision."""
    return 2 * loader.plan.num_samples * (16 + 2 * split.classes.num_old + 16 + 2 * len(split.classes.names))


def test_the_size_is_told_before_and_bounded(split: Split) -> None:
    recipe = short_recipe()
    teachers, loader = teachers_of(split, recipe)
    budget = CacheBudget(split.run_root / "cache" / "teachers", recipe.runtime)
    source = CachedTeachers(teachers, loader, recipe, BOTH, budget)
    assert f"{bytes_of_a_run(split, loader) / 1e6:.1f} MB (fp16)" in budget.notes[0]
    assert not files(split)
    source.budget.evict()
    fill(source, loader)
    told = bytes_of_a_run(split, loader)
    assert 0.9 * told < sum(file.stat().st_size for file in files(split)) <= told
    with pytest.raises(UsageError, match=r"cache_limit_gb 1e-05: the teacher logits of this run take"):
        cached(split, short_recipe("runtime.cache_limit_gb=0.00001"))


def fill(source: CachedTeachers, loader: Loader) -> bytes:
    """Ask for all of two epochs; give what was answered."""
    answers = (source.logits(batch, BOTH) for epoch in range(2) for batch in loader.epoch(epoch))
    return b"".join(each[role].numpy().tobytes() for each in answers for role in (Role.OLD, Role.REF))


def test_old_caches_make_room_for_new_ones(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    limit = (
        f"runtime.cache_limit_gb={1.5 * bytes_of_a_run(split, loader) / 1e9:f}"  # room for one run and a half
    )
    for seed in range(3):
        source, _, loader = opened(split, short_recipe(limit, f"data.mean=[0.{seed + 1},0.5,0.5]"))
        fill(source, loader)
    folders = {f.parent for f in files(split)}
    assert len(folders) == 2  # old and ref of the last


def test_nothing_is_removed_before_the_cache_is_opened(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, BOTH)
    kept = files(split)
    limit = f"runtime.cache_limit_gb={bytes_of_a_run(split, loader) / 1e9 + 1e-6:f}"  # room for one run alone
    other, _, _ = cached(split, short_recipe(limit, "data.mean=[0.1,0.5,0.5]"))
    assert files(split) == kept  # a dry run, for instance, ends here
    other.budget.evict()
    assert files(split) == []
    other.logits(batch, BOTH)
    assert not set(files(split)) & set(kept)


def ask(runs: Path, queue: multiprocessing.Queue[tuple[int, bytes]]) -> None:
    torch.set_num_threads(1)
    split = load_split(runs)
    source, teachers, loader = opened(split, short_recipe())
    answers = fill(source, loader)
    queue.put((teachers.computed, answers))


def test_processes_share_the_work_without_races(split: Split) -> None:
    queue: multiprocessing.Queue[tuple[int, bytes]] = PROCESSES.Queue()
    processes = [process_of(ask, split.run_root, queue) for _ in range(2)]
    results = [queue.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    _, _, loader = opened(split, short_recipe())
    assert sum(computed for computed, _ in results) == 2 * 2 * loader.steps_per_epoch
    assert len({answers for _, answers in results}) == 1


def test_one_teacher_is_computed_while_another_run_computes_the_other(split: Split) -> None:
    source, teachers, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    another, _, _ = opened(split, short_recipe())
    with ThreadPoolExecutor(1) as pool:
        with another.files[Role.OLD].locked(0):
            answer = pool.submit(source.logits, batch, BOTH)
            deadline = time.monotonic() + 60
            while teachers.computed == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert not answer.done()
            ref = another.logits(batch, {Role.REF})[Role.REF]
        found = answer.result(timeout=60)
    assert torch.equal(found[Role.REF], ref)
    assert Role.OLD in found
    assert teachers.computed == 2


def test_the_old_model_judges_the_validation_part_once(split: Split) -> None:
    def flips(name: str) -> list[float | None]:
        return [
            line.val_nfr
            for line in read_metrics(RunDir(split.run_root / name).metrics)
            if line.event == "epoch"
        ]

    update(split, "plain", method="no-treatment")
    update(split, "first", "runtime.cache_teachers=true", method="no-treatment")
    (path,) = files(split)  # the method asks for no teacher, validation does
    written = path.stat().st_mtime_ns
    update(split, "second", "runtime.cache_teachers=true", method="no-treatment")
    assert files(split) == [path]
    assert path.stat().st_mtime_ns == written
    assert flips("plain") == flips("first") == flips("second") != []


def hold(runs: Path, holding: Event) -> None:
    """Compute four answers of the old model, and hold the lock of the next."""
    torch.set_num_threads(1)
    source, _, loader = opened(load_split(runs), short_recipe())
    batches = iter(loader.epoch(0))
    for _ in range(4):
        source.logits(next(batches), OLD)
    with source.files[Role.OLD].locked(0):
        holding.set()
        time.sleep(60)


def test_a_killed_run_leaves_a_cache_that_others_use(split: Split) -> None:
    holding = PROCESSES.Event()
    process = process_of(hold, split.run_root, holding)
    assert holding.wait(60)
    process.kill()
    process.join()
    source, teachers, loader = opened(split, short_recipe())
    for batch in loader.epoch(0):
        source.logits(batch, OLD)
    assert teachers.computed == loader.steps_per_epoch - 4


def test_rounding_keeps_the_answer_counted_by_hand() -> None:
    # Between 4 and 8 half precision has steps of 1/256: 5 and 5 + 1/1024 round to the same number.
    logits = np.array(
        [
            [
                5.0,
                5.0 + 1 / 1024,
                1.0,
            ],  # the second is the answer; rounded it would tie, and the first would be
            [5.0, 5.0, 1.0],  # a true tie: the first is the answer
            [5.0 + 1 / 1024, 5.0, 1.0],
            [1e6, 2e6, -3e38],  # beyond half precision
        ],
        dtype=np.float32,
    )
    kept = round_logits(logits, np.dtype(np.float16))
    assert kept.dtype == np.float16
    assert kept.argmax(axis=1).tolist() == [1, 0, 0, 1]
    assert kept[0].tolist() == [5.0 - 1 / 256, 5.0, 1.0]
    assert kept[1].tolist() == [5.0, 5.0, 1.0]
    assert np.isfinite(kept).all()


@given(
    arrays(
        np.float32,
        (7, 4),
        elements=st.one_of(
            st.floats(-70000, 70000, width=32),
            st.floats(0.984375, 1.015625, width=32),
            st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-9, -1e-9]).map(np.float32),
        ),
    )
)
@example(np.array([[0, 0, 1.0069379, 1.0071871]] * 7, dtype=np.float32))  # both are nearest to 1.0068359
def test_rounding_keeps_every_answer_for_every_label(logits: np.ndarray) -> None:  # type: ignore[type-arg]
    kept = round_logits(logits, np.dtype(np.float16))
    before, after = torch.from_numpy(logits), torch.from_numpy(kept)
    for label in range(4):
        target = torch.full((7,), label)
        assert torch.equal(is_top1_correct(before, target), is_top1_correct(after, target))
    finite = np.isfinite(logits)
    assert np.isfinite(kept[finite]).all()
    # Half a step to the nearest number, and one more where that would tie with the answer.
    step = 1.5 * np.maximum(np.abs(np.clip(logits[finite], -65504, 65504)) * 2.0**-10, 2.0**-24) * 1.01
    far = np.abs(logits[finite]) > 65472
    assert (np.abs(kept[finite].astype(np.float32) - logits[finite])[~far] <= step[~far]).all()


def test_float32_is_kept_as_it_is() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    assert round_logits(logits, np.dtype(np.float32)).tobytes() == logits.tobytes()
