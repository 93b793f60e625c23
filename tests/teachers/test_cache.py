"""The cache of teacher logits: the same numbers with and without it, and no trust in what is on the disk."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.data.loading.batch import Batch
from mptctl.data.loading.choose import make_loader
from mptctl.data.split import Split, load_split, make_split
from mptctl.errors import UsageError
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.report.training_progress import Silent
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.cache_files import LogitFiles, narrow
from mptctl.teachers.ensemble import Teachers
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import short_recipe

CPU = torch.device("cpu")
OLD, BOTH = frozenset({Role.OLD}), frozenset(Role)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with a split of the digits, and an old and a reference model of one epoch."""
    root = tmp_path_factory.mktemp("cache")
    split = make_split("digits", run_root=root)
    for name, seed in (("old", 1), ("ref", 2)):
        recipe = short_recipe("optim.epochs=1", f"runtime.seed={seed}")
        train(RunRequest(recipe, split, root / name, only_old_classes=name == "old"), Silent())
    return root


@pytest.fixture
def split(root: Path, tmp_path: Path) -> Split:
    """The split and the teachers in a run root of the test's own."""
    shutil.copytree(root, tmp_path / "runs")
    return load_split(tmp_path / "runs")


def update(split: Split, name: str, *overrides: str, method: str = "mpt-kl") -> dict[str, torch.Tensor]:
    """Train an update and give its weights."""
    runs = split.run_root
    recipe = short_recipe("optim.max_steps=30", *overrides, method=method)
    train(
        RunRequest(recipe, split, runs / name, runs / "old" / "best.pt", (runs / "ref" / "best.pt",)),
        Silent(),
    )
    weights: dict[str, torch.Tensor] = torch.load(runs / name / "last.pt", weights_only=True)["model"]
    return weights


def files(split: Split) -> list[Path]:
    return sorted((split.run_root / "cache" / "teachers").rglob("epoch-*.bin"))


class Counting:
    """Teachers that count how often they are asked to compute."""

    def __init__(self, teachers: Teachers) -> None:
        self.teachers = teachers
        self.digests = teachers.digests
        self.computed = 0

    def open(self) -> None:
        self.teachers.open()

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        self.computed += 1
        return self.teachers.logits(batch, roles)


def teachers_of(split: Split, recipe: Recipe) -> tuple[Counting, Loader]:
    runs = split.run_root
    best = (runs / "old" / "best.pt", [runs / "ref" / "best.pt"])
    teachers = Teachers(*best, split.classes, recipe.data, recipe.runtime, CPU)
    loader = make_loader(split, recipe.data, "train", batch_size=64, seed=0, train=True, device=CPU)
    return Counting(teachers), loader


def cached(split: Split, recipe: Recipe) -> tuple[CachedTeachers, Counting, Loader]:
    teachers, loader = teachers_of(split, recipe)
    budget = CacheBudget(split.run_root / "cache" / "teachers", recipe.runtime)
    return CachedTeachers(teachers, loader, recipe, BOTH, budget), teachers, loader


def opened(split: Split, recipe: Recipe) -> tuple[CachedTeachers, Counting, Loader]:
    source, teachers, loader = cached(split, recipe)
    source.open()
    return source, teachers, loader


@pytest.mark.parametrize("method", ["mpt-kl", "mpt-lm", "pct-naive"])
def test_in_float32_weights_are_bit_equal_with_and_without(split: Split, method: str) -> None:
    plain = update(split, "plain", method=method)
    options = ("runtime.cache_teachers=true", "runtime.cache_precision=fp32")
    first = update(split, "first", *options, method=method)
    second = update(split, "second", *options, method=method)
    assert files(split)
    for name, weights in plain.items():
        assert torch.equal(weights, first[name]), name
        assert torch.equal(weights, second[name]), name


def test_pieces_of_a_batch_are_computed_as_without_the_cache(split: Split) -> None:
    plain = update(split, "plain", "optim.accumulate=3")
    options = ("optim.accumulate=3", "runtime.cache_teachers=true", "runtime.cache_precision=fp32")
    update(split, "other", *options[1:])
    kept = update(split, "kept", *options)
    assert all(torch.equal(weights, kept[name]) for name, weights in plain.items())


def test_in_half_precision_who_fills_the_cache_does_not_matter(split: Split) -> None:
    # Few steps: training lets any difference grow.
    plain = update(split, "plain", "optim.max_steps=3")
    first = update(split, "first", "optim.max_steps=3", "runtime.cache_teachers=true")
    second = update(split, "second", "optim.max_steps=3", "runtime.cache_teachers=true")
    assert all(torch.equal(weights, second[name]) for name, weights in first.items())
    apart = max(float((weights - first[name]).abs().max()) for name, weights in plain.items())
    assert 0 < apart < 0.01, apart


def test_each_batch_is_computed_once(split: Split) -> None:
    source, teachers, loader = opened(split, short_recipe())
    answers = [source.logits(b, BOTH) for b in loader.epoch(0)]
    assert teachers.computed == 2 * loader.steps_per_epoch
    again, others, _ = opened(split, short_recipe())
    for batch, before in zip(loader.epoch(0), answers, strict=True):
        now = again.logits(batch, BOTH)
        assert torch.equal(now[Role.OLD], before[Role.OLD])
        assert torch.equal(now[Role.REF], before[Role.REF])
        assert now[Role.OLD].dtype == torch.float32
        assert now[Role.OLD].shape == (64, split.classes.num_old)
    assert others.computed == 0


def test_a_pass_that_begins_in_the_middle_finds_its_place(split: Split) -> None:
    source, teachers, loader = opened(split, short_recipe())
    late = list(loader.epoch(1, 5))
    for batch in late:
        source.logits(batch, OLD)
    for batch in loader.epoch(1):
        direct = teachers.teachers.logits(batch, OLD)[Role.OLD]
        kept = source.logits(batch, OLD)[Role.OLD]
        assert torch.allclose(direct, kept, rtol=2**-10, atol=1e-6)
    assert teachers.computed == loader.steps_per_epoch


@pytest.mark.parametrize("damage", ["flip", "cut", "zeros", "gone", "stranger"])
def test_a_damaged_cache_is_computed_again(split: Split, damage: str) -> None:
    source, teachers, loader = opened(split, short_recipe())
    expected = [source.logits(b, OLD)[Role.OLD] for b in loader.epoch(0)]
    (path,) = files(split)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    if damage == "flip":
        path.write_bytes(content)
    elif damage == "cut":
        os.truncate(path, 100)
    elif damage == "zeros":
        path.write_bytes(bytes(len(content)))
    elif damage == "gone":
        shutil.rmtree(path.parent)
    else:
        path.write_bytes(b"something else")
    again, others, _ = opened(split, short_recipe())
    for batch, logits in zip(loader.epoch(0), expected, strict=True):
        now = again.logits(batch, OLD)[Role.OLD]
        assert torch.equal(now, logits)
    assert others.computed == (1 if damage == "flip" else loader.steps_per_epoch)
    third, none, _ = opened(split, short_recipe())
    for batch in loader.epoch(0):
        third.logits(batch, OLD)
    assert none.computed == 0
    assert teachers.computed == loader.steps_per_epoch


@pytest.mark.parametrize(
    "change",
    [
        "runtime.cache_precision=fp32",
        "data.padding=2",
        "data.mean=[0.4,0.4,0.4]",
        "runtime.channels_last=false",
    ],
)
def test_another_cache_key_has_another_answer(split: Split, change: str) -> None:
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, OLD)
    other, teachers, _ = opened(split, short_recipe(change))
    other.logits(batch, OLD)
    assert teachers.computed == 1


def test_another_teacher_has_another_answer(split: Split) -> None:
    runs = split.run_root
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, BOTH)
    shutil.rmtree(runs / "ref")
    recipe = short_recipe("optim.max_steps=2", "runtime.seed=7")
    train(RunRequest(recipe, split, runs / "ref"), Silent())
    other, teachers, _ = opened(split, short_recipe())
    other.logits(batch, BOTH)
    assert teachers.computed == 1  # the reference; the old model is the same


def test_a_batch_of_another_plan_is_refused(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, OLD)
    others = (replace(batch, epoch=1), replace(batch, position=64), replace(batch, index=batch.index.flip(0)))
    for other in (*others, replace(batch, position=loader.num_samples - 32)):
        with pytest.raises(ValueError, match=f"not one of epoch {other.epoch} of the plan"):
            source.logits(other, OLD)


def test_a_cache_that_was_not_opened_is_not_written(split: Split) -> None:
    source, _, loader = cached(split, short_recipe())
    with pytest.raises(RuntimeError, match="asked before it was opened"):
        source.logits(next(iter(loader.epoch(0))), OLD)
    assert not files(split)


def test_the_size_is_told_before_and_bounded(split: Split) -> None:
    recipe = short_recipe()
    teachers, loader = teachers_of(split, recipe)
    budget = CacheBudget(split.run_root / "cache" / "teachers", recipe.runtime)
    CachedTeachers(teachers, loader, recipe, BOTH, budget)
    row = 16 + 2 * split.classes.num_old + 16 + 2 * len(split.classes.names)
    assert f"{2 * row * loader.num_samples / 1e6:.1f} MB (fp16)" in budget.notes[0]
    assert not files(split)
    with pytest.raises(UsageError, match=r"cache_limit_gb 1e-05: the teacher logits of this run take"):
        cached(split, short_recipe("runtime.cache_limit_gb=0.00001"))


def test_the_size_on_disk_is_what_was_told(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    for epoch in range(2):
        for batch in loader.epoch(epoch):
            source.logits(batch, BOTH)
    row = 16 + 2 * split.classes.num_old + 16 + 2 * len(split.classes.names)
    told = 2 * row * loader.num_samples
    on_disk = sum(f.stat().st_size for f in files(split))
    assert 0.9 * told < on_disk <= told


def test_old_caches_make_room_for_new_ones(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    row = 16 + 2 * split.classes.num_old + 16 + 2 * len(split.classes.names)
    limit = f"runtime.cache_limit_gb={3 * row * loader.num_samples / 1e9:f}"  # room for one run and a half
    for seed in range(3):
        source, _, loader = opened(split, short_recipe(limit, f"data.mean=[0.{seed + 1},0.5,0.5]"))
        for epoch in range(2):
            for batch in loader.epoch(epoch):
                source.logits(batch, BOTH)
    folders = {f.parent for f in files(split)}
    assert len(folders) == 2  # old and ref of the last


def test_nothing_is_removed_before_the_cache_is_opened(split: Split) -> None:
    source, _, loader = opened(split, short_recipe())
    batch = next(iter(loader.epoch(0)))
    source.logits(batch, BOTH)
    kept = files(split)
    row = 16 + 2 * split.classes.num_old + 16 + 2 * len(split.classes.names)
    limit = f"runtime.cache_limit_gb={2 * row * loader.num_samples / 1e9 + 1e-6:f}"  # room for one run alone
    other, _, _ = cached(split, short_recipe(limit, "data.mean=[0.1,0.5,0.5]"))
    assert files(split) == kept  # a dry run, for instance, ends here
    other.open()
    assert files(split) == []
    other.logits(batch, BOTH)
    assert not set(files(split)) & set(kept)


def ask(runs: Path, queue: multiprocessing.Queue[tuple[int, bytes]]) -> None:
    torch.set_num_threads(1)
    split = load_split(runs)
    source, teachers, loader = opened(split, short_recipe())
    answers = b""
    for epoch in range(2):
        for batch in loader.epoch(epoch):
            answer = source.logits(batch, BOTH)
            answers += answer[Role.OLD].numpy().tobytes() + answer[Role.REF].numpy().tobytes()
    queue.put((teachers.computed, answers))


def test_processes_share_the_work_without_races(split: Split) -> None:
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[tuple[int, bytes]] = context.Queue()
    processes = [context.Process(target=ask, args=(split.run_root, queue)) for _ in range(2)]
    for process in processes:
        process.start()
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


def test_a_killed_run_leaves_a_cache_that_others_use(split: Split) -> None:
    code = f"""
from pathlib import Path
import sys, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
import importlib.util
spec = importlib.util.spec_from_file_location("cache_tests", {__file__!r})
tests = importlib.util.module_from_spec(spec); spec.loader.exec_module(tests)
from mptctl.data.split import load_split
source, _, loader = tests.opened(load_split(Path({str(split.run_root)!r})), tests.short_recipe())
for i, batch in enumerate(loader.epoch(0)):
    source.logits(batch, tests.OLD)
    if i == 3:
        store = source.files[tests.Role.OLD]
        with store.locked(0):
            print("holding", flush=True)
            time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "holding"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    begin = time.monotonic()
    source, teachers, loader = opened(split, short_recipe())
    for batch in loader.epoch(0):
        source.logits(batch, OLD)
    assert teachers.computed == loader.steps_per_epoch - 4
    assert time.monotonic() - begin < 30


def test_folders_that_earlier_versions_wrote_are_found(tmp_path: Path) -> None:
    """The name of a folder and the bytes of its files, as the version before wrote them."""
    key = {"role": "old", "layout": 1, "teachers": ["a1"], "batch": [2, 1, 1]}
    files = LogitFiles(tmp_path, key, rows=2, width=3, dtype=np.dtype(np.float16))
    assert files.folder.name == "old-9c0957c49648510d"
    index, logits = np.array([4, 1]), np.arange(6, dtype=np.float16).reshape(2, 3)
    files.write(0, 0, index, logits)
    assert json.loads((files.folder / "question.json").read_text()) == key
    written = (files.folder / "epoch-0000.bin").read_bytes().hex()
    assert (
        written == "0de82ad602939afd8192009fadf505c8000000000000000000000000000000000000003c0040004200440045"
    )


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
    kept = narrow(logits, np.dtype(np.float16))
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
    kept = narrow(logits, np.dtype(np.float16))
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
    assert narrow(logits, np.dtype(np.float32)).tobytes() == logits.tobytes()
