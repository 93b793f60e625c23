"""Files that `tune --overwrite` removes from its folder, and those that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

from mptctl.models.lock import locked
from mptctl.models.ownership import remove_own
from mptctl.tune.tune_report import RAY, SEARCH, is_search

RUN_MARK = json.dumps(
    {"command": ["mptctl"], "started": "2025-01-01T00:00:00", "versions": {"mptctl": "0.1.0"}}
)
SEARCH_MARK = json.dumps({"sampler": "grid", "trials": [], "split_fingerprint": "0"})


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_only_what_a_search_wrote_is_removed(tmp_path: Path) -> None:
    ours = {
        "trials.json": SEARCH_MARK,
        "best.yaml": "",
        "tune.png": "",
        "tune.html": "",
        ".trials.json.abcd1234.part": "",
        "ray/search/trial-1/params.pkl": "",
        "ray/search/tuner.pkl": "",
        "trials/mpt-kl-k0/environment.json": RUN_MARK,
        "trials/mpt-kl-k0/best.pt": "",
        "trials/mpt-kl-k0/tensorboard/events.out.tfevents.1": "",
        "trials/mpt-kl-k0/lock": "4711\n",
        "trials/mpt-kl-k1/environment.json": RUN_MARK,
        "trials/mpt-kl-k1/last.pt": "",
        "trials/failed/error.txt": "Traceback",
        "trials/killed/.environment.json.abcd1234.part": "",
    }
    foreign = {
        "notes.txt": "",
        "plots/tune.png": "",
        "ray/mine.txt": "",
        "trials/readme.txt": "",
        "trials/mine/recipe.yaml": "",
        "trials/mpt-kl-k1/notes.txt": "",
        "trials/mpt-kl-k1/tensorboard/mine.txt": "",
    }
    write(tmp_path, ours | foreign)
    with locked(tmp_path, SEARCH, "replace"):
        left = remove_own(tmp_path, SEARCH)
    assert left == [
        "notes.txt", "plots/", "ray/mine.txt", "trials/mine/", "trials/mpt-kl-k1/notes.txt",
        "trials/mpt-kl-k1/tensorboard/mine.txt", "trials/readme.txt",
    ]  # fmt: skip
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(foreign)
    assert not (tmp_path / "trials" / "mpt-kl-k0").exists()


def test_ray_leaves_nothing_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"search/experiment_state.json": "", "search/trial/result.json": ""})
    assert remove_own(tmp_path, RAY) == []
    assert list(tmp_path.iterdir()) == []


def test_a_search_is_known_by_what_it_wrote(tmp_path: Path) -> None:
    for name, text, known in (
        ("trials.json", SEARCH_MARK, True),
        ("trials.json", "[]", False),
        ("trials.json", SEARCH_MARK[:20], False),
        ("best.yaml", "method: mine\n", False),
    ):
        (tmp_path / name).write_text(text)
        assert is_search(tmp_path) is known, (name, text)
        (tmp_path / name).unlink()
