"""`mptctl recipes`: what can be named, with one line each, and what stands behind a name."""

from __future__ import annotations

import json

import pytest
import yaml

from mptctl.files.explained import nearest
from mptctl.recipe import load_recipe, preset_names, validate_recipe
from mptctl.studies.study_file import StudyFile, load_study, study_names
from tests.common import CommandLine


def test_every_preset_and_study_has_a_line(mptctl: CommandLine) -> None:
    out = mptctl("recipes")
    assert (out.returncode, out.stderr) == (0, "")
    titles, *rows = [line.rstrip().split(maxsplit=2) for line in out.stdout.splitlines()]
    assert titles == ["name", "kind", "what it is"]
    assert [row[:2] for row in rows] == [
        *([name, "preset"] for name in preset_names()),
        *([name, "study"] for name in study_names()),
    ]
    said = {(name, kind): text for name, kind, text in rows}
    assert said["digits", "preset"].startswith("The embedded digits (8x8 pixels")
    assert said["demo", "study"] == load_study("demo").file.description
    found = json.loads(mptctl("recipes", "--json").stdout)["recipes"]
    assert [[one["name"], one["kind"], one["description"]] for one in found] == rows
    assert all(one["content"] is None for one in found)


@pytest.mark.parametrize("name", sorted({*preset_names(), *study_names()}))
def test_a_name_shows_its_settled_content(mptctl: CommandLine, name: str) -> None:
    out = mptctl("recipes", name)
    assert (out.returncode, out.stderr) == (0, "")
    shown = list(yaml.safe_load_all(out.stdout))
    kinds = [kind for kind, names in (("preset", preset_names()), ("study", study_names())) if name in names]
    found = json.loads(mptctl("recipes", name, "--json").stdout)["recipes"]
    assert [(one["name"], one["kind"]) for one in found] == [(name, kind) for kind in kinds]
    assert [one["content"] for one in found] == shown
    contents = dict(zip(kinds, shown, strict=True))
    if "preset" in contents:
        assert validate_recipe(contents["preset"], name) == load_recipe(name)
    if "study" in contents:
        assert StudyFile.model_validate(contents["study"]) == load_study(name).file


def test_a_list_of_names_that_is_cut_says_so_and_what_lists_them_all(mptctl: CommandLine) -> None:
    for words, names in (
        (("recipes", "x"), {*preset_names(), *study_names()}),
        (("study", "x"), {*study_names()}),
    ):
        said = mptctl(*words).stderr
        assert said.endswith(f" and {len(names) - 12} more; mptctl recipes lists them\n")
        assert said.partition("valid: ")[2].partition(" and ")[0].split(", ") == sorted(names)[:12]
    assert nearest("x", list("abcdefghijklmn")) == "; valid: a, b, c, d, e, f, g, h, i, j, k, l and 2 more"
