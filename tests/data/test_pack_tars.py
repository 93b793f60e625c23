"""Tar shards as a source of `pack`: what it wrote itself, and what others lay out."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.shards import list_shards
from mptctl.data.packing import plan
from mptctl.names import PackForm
from tests.data.test_pack import pack_folder, whole
from tests.data.test_pack_tables import pack


def write_tar(path: Path, members: Mapping[str, bytes] | Sequence[tuple[str, bytes]]) -> None:
    """A tar file of these names and contents; of pairs, a name may come twice."""
    with tarfile.open(path, "w") as tar:
        for name, content in members.items() if isinstance(members, Mapping) else members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def test_shards_become_the_folder_that_they_were_made_of(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SHARD_PICTURES", 8)
    pack_folder(folder, tmp_path / "shards", to="shards")
    for place in (tmp_path / "shards", f"{tmp_path}/shards/{{train,val}}-*.tar"):
        out = tmp_path / f"out{len(str(place))}"
        assert pack(place, out).pictures == 56
        assert {name: content for name, content in whole(out).items() if name.endswith(".jpg")} == whole(
            folder
        )
        assert pack(place, out).found == 56


def test_img2datasets_layout_has_labels_in_its_json_and_captions_in_its_txt(
    folder: Path, tmp_path: Path
) -> None:
    paths = sorted(folder.glob("train/*/*.jpg"))
    members = {}
    for i, path in enumerate(paths):
        members[f"{i:09d}.jpg"] = path.read_bytes()
        members[f"{i:09d}.txt"] = f"caption {i}".encode()
        members[f"{i:09d}.json"] = json.dumps({"kind": path.parent.name, "key": f"{i:09d}"}).encode()
    write_tar(tmp_path / "00000.tar", members)
    with pytest.raises(BadPictures, match="--column label=KEY"):
        pack(tmp_path / "00000.tar", tmp_path / "out")
    pack(tmp_path / "00000.tar", tmp_path / "out", columns={"label": "kind"})
    for i, path in enumerate(paths):
        assert (tmp_path / "out" / path.parent.name / f"{i:09d}.jpg").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("to", ["folder", "shards"])
def test_what_else_a_json_says_is_kept(folder: Path, tmp_path: Path, to: PackForm) -> None:
    members, said = {}, [{"camera": "c1", "iso": 100}, {"camera": "c2"}, {"iso": "auto", "size": 2**70}]
    for i, (path, further) in enumerate(zip(sorted(folder.glob("train/*/*.jpg")), said, strict=False)):
        members[f"{i}.jpg"] = path.read_bytes()
        members[f"{i}.json"] = json.dumps({"label": "a", **further}).encode()
    write_tar(tmp_path / "0.tar", members)
    pack(tmp_path / "0.tar", tmp_path / "out", to=to)
    expected = [("c1", "100", None), ("c2", None, None), (None, "auto", str(2**70))]
    if to == "folder":
        with open(tmp_path / "out" / "pictures.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        found = [tuple(row[name] or None for name in ("camera", "iso", "size")) for row in rows]
    else:
        further = list_shards(str(tmp_path / "out"), tmp_path / "out", None).further()
        found = [tuple(row[name] for name in ("camera", "iso", "size")) for row in further.to_pylist()]
    assert found == expected
