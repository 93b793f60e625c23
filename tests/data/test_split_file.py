"""`split.json` and its table: damaged or edited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mptctl.data.split import Split, load_split, make_split
from mptctl.data.split_file import about_table, table_name
from mptctl.errors import DataError
from tests.common import DAMAGES, damage


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 99},
        {"num_old": "many"},
        {"table": ""},
        {"table": None},
        {"table": "../split-0123456789abcdef.arrow"},
    ],
    ids=str,
)
def test_a_damaged_split_is_a_data_error(tmp_path: Path, change: dict[str, Any]) -> None:
    make_split("digits", run_root=tmp_path)
    content = json.loads((tmp_path / "split.json").read_text()) | change
    kept = {key: value for key, value in content.items() if value is not None or key not in change}
    (tmp_path / "split.json").write_text(json.dumps(kept))
    with pytest.raises(DataError, match=r"run mptctl split again"):
        load_split(tmp_path)


@pytest.mark.parametrize("how", [*DAMAGES, "other table"])
def test_a_damaged_table_is_a_data_error(tmp_path: Path, how: str) -> None:
    table = tmp_path / make_split("digits", run_root=tmp_path).file.table
    if how == "other table":
        other = make_split("digits", run_root=tmp_path / "other", seed=1).file.table
        (tmp_path / "other" / other).replace(table)
    else:
        damage(table, how)
    with pytest.raises(DataError, match=r"run mptctl split again"):
        load_split(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"num_old": 4},
        {"class_names": ["1", "0", *map(str, range(2, 10))]},
        {"fingerprint": "0" * 32},
        {"manifest_fingerprint": "0" * 32},
        {"counts": {"train": 806, "val": 91, "test": 901}},
        {"quarantined": ["train/cat/1.png: empty"]},
        {"request": {"seed": 3}},
        {"request": {"val_fraction": 0.2}},
    ],
    ids=lambda change: "-".join(change),
)
def test_a_split_that_was_edited_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    make_split("digits", run_root=tmp_path)
    path = tmp_path / "split.json"
    content = json.loads(path.read_text())
    ((key, value),) = change.items()
    path.write_text(json.dumps(content | {key: content[key] | value if key == "request" else value}))
    with pytest.raises(
        DataError, match=rf"{key} was edited: .* found, .* expected; .* again with --overwrite"
    ):
        load_split(tmp_path)


def test_data_that_moved_are_no_edit(tmp_path: Path, folder: Path) -> None:
    made = make_split("imagefolder", run_root=tmp_path / "runs", data_root=folder)
    moved = made.file.request.model_copy(update={"data_root": str(tmp_path / "moved")})
    path = tmp_path / "runs" / "split.json"
    path.write_text(made.file.model_copy(update={"request": moved}).model_dump_json())
    assert load_split(tmp_path / "runs").manifest.root == tmp_path / "moved"


def write_edited(split: Split, content: bytes) -> None:
    """Write another table, and let `split.json` name it, as someone would who computes its digest again."""
    file = split.file.model_copy(update={"table": table_name(content)})
    (split.run_root / file.table).write_bytes(content)
    (split.run_root / "split.json").write_text(file.model_dump_json())


@pytest.mark.parametrize(("label", "part"), [(-1, 0), (4, 0), (0, 4)])
def test_a_label_that_is_none_is_never_read_as_the_last_class(
    tmp_path: Path, folder: Path, label: int, part: int
) -> None:
    made = make_split("imagefolder", run_root=tmp_path, data_root=folder)
    labels, parts = made.manifest.labels.copy(), made.manifest.parts.copy()
    labels[3], parts[3] = label, part
    edited = replace(made.manifest, labels=labels, parts=parts)
    write_edited(made, edited.serialise(about_table(made.file)))
    with pytest.raises(DataError, match="1 rows have a label or a part that there is not, row 3 first"):
        load_split(tmp_path)


def test_columns_of_another_type_are_refused(tmp_path: Path, folder: Path) -> None:
    made = make_split("imagefolder", run_root=tmp_path, data_root=folder)
    table = pa.ipc.open_file(tmp_path / made.file.table).read_all()
    floats = table.set_column(table.column_names.index("height"), "height", table["height"].cast("float64"))
    for wrong in (floats, table.replace_schema_metadata(None), table.drop_columns(["label"])):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, wrong.schema) as file:
            file.write_table(wrong)
        write_edited(made, sink.getvalue().to_pybytes())
        with pytest.raises(DataError, match=r"\.arrow: no table of a split .*run mptctl split again"):
            load_split(tmp_path)
