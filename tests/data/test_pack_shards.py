"""Tar shards that `pack` writes: what is in them, where, and what happens to them when the source changes."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from mptctl.data.listing.listing import BadPictures
from mptctl.data.packing import plan
from mptctl.data.packing.records import read_packed_files
from mptctl.errors import UsageError
from tests.common import smooth_picture
from tests.data.test_pack import pack_folder, whole


def members_of(out: Path) -> dict[str, bytes]:
    """Every member of every shard."""
    found: dict[str, bytes] = {}
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                stream = tar.extractfile(member)
                found[member.name] = stream.read()
    return found


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SHARD_PICTURES", 8)


def test_shards_hold_the_pictures_as_they_are_with_their_ids_and_classes(
    folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "shards"
    report = pack_folder(folder, out, to="shards")
    paths = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.jpg"))]
    members = members_of(out)
    assert (report.pictures, report.copied, report.classes) == (56, 56, 4)
    assert sorted(name for name in members if not name.endswith(".cls")) == paths
    classes = (out / "classes.txt").read_text().split()
    assert classes == ["class0", "class1", "class2", "class3"]
    for path in paths:
        assert members[path] == (folder / path).read_bytes()
        assert classes[int(members[path.replace(".jpg", ".cls")])] == path.split("/")[1]
    tars = sorted(path.name for path in out.glob("*.tar"))
    assert report.shards == len(tars) > 4
    assert {name.split("-")[0] for name in tars} == {"train", "val"}
    in_shard = Counter(file.shard for file in read_packed_files(out).values())
    assert sorted(in_shard.values()) == [8] * 7
    assert pack_folder(folder, out, to="shards").found == 56


def test_small_shards_hold_small_pictures(folder: Path, tmp_path: Path) -> None:
    pack_folder(folder, tmp_path / "shards", 50, to="shards")
    pack_folder(folder, tmp_path / "folder", 50)
    members = members_of(tmp_path / "shards")
    for path in (tmp_path / "folder").rglob("*.jpg"):
        assert members[path.relative_to(tmp_path / "folder").as_posix()] == path.read_bytes()


def test_only_shards_whose_pictures_changed_are_written_again(own_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    pack_folder(own_folder, out, to="shards")
    first = whole(out)
    path = sorted(own_folder.glob("train/class0/*"))[0]
    shard = read_packed_files(out)[path.relative_to(own_folder).as_posix()].shard
    in_shard = sum(file.shard == shard for file in read_packed_files(out).values())
    smooth_picture(90, 80, 1000).save(path, quality=90)
    assert pack_folder(own_folder, out, to="shards").found == 56 - in_shard
    now = whole(out)
    assert {name for name in first if name.endswith(".tar") and first[name] != now[name]} == {shard}
    assert members_of(out)[path.relative_to(own_folder).as_posix()] == path.read_bytes()
    (out / shard).unlink()
    assert pack_folder(own_folder, out, to="shards").found == 56 - in_shard
    assert len(members_of(out)) == 112


def test_what_shards_cannot_hold_or_did_not_write_is_refused(own_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    pack_folder(own_folder, out, to="shards")
    with pytest.raises(UsageError, match="to: shards -> folder"):
        pack_folder(own_folder, out)
    (out / "more.tar").touch()
    with pytest.raises(UsageError, match=r"more\.tar"):
        pack_folder(own_folder, out, to="shards")
    for name in ("a.1.jpg", "a.2.jpg"):
        smooth_picture(9, 9, 1).save(own_folder / "train" / "class0" / name)
    with pytest.raises(BadPictures, match=r"2 of 58 .*before the first dot"):
        pack_folder(own_folder, tmp_path / "other", to="shards")
    assert not (tmp_path / "other").exists()
    assert json.loads((out / "pack.json").read_text())["complete"]


def test_long_names_and_names_with_blanks_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "train" / ("c" * 90)
    folder.mkdir(parents=True)
    for name in ("d" * 120 + ".jpg", "with a blank.png"):
        smooth_picture(30, 40, 1).save(folder / name)
    pack_folder(tmp_path / "source", tmp_path / "shards", to="shards")
    for name, content in members_of(tmp_path / "shards").items():
        assert name.endswith(".cls") or content == (tmp_path / "source" / name).read_bytes()
