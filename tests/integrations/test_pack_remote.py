"""`pack` from a real S3 server on this machine: listing, packing, a kill, a damaged object, no credentials."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.common import Done, command, environment, make_folder
from tests.data.test_pack import whole
from tests.data.test_pack_shards import members_of
from tests.data.test_pack_tables import rows_of, write_parquet

pytest.importorskip("moto", reason="moto is not installed (make test-integrations)")
s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed (make test-integrations)")
# Warnings of other people's libraries are no failures of ours.
pytestmark = pytest.mark.filterwarnings("default")

ACCOUNT = "123456789012"
KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of moto's S3 server."""
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    yield f"http://{host}:{port}"
    moto.stop()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("remote") / "pictures", classes=4, train=10, val=4)


@pytest.fixture
def bucket(server: str, pictures: Path, request: pytest.FixtureRequest) -> str:
    """A bucket with the pictures below `data`."""
    files = s3fs.S3FileSystem(key="x", secret="y", endpoint_url=server, skip_instance_cache=True)
    name = f"b{abs(hash(request.node.name))}"
    files.mkdir(name)
    for path, content in whole(pictures).items():
        files.pipe(f"{name}/data/{path}", content)
    write_parquet(pictures.parent / "train.parquet", rows_of(pictures, "train"))
    files.put(str(pictures.parent / "train.parquet"), f"{name}/tables/train.parquet")
    return name


def begin(server: str, *words: object, **more: str) -> subprocess.Popen[str]:
    """`pack` in a process of its own, with no other keys than those that are given."""
    kept = {key: value for key, value in environment().items() if not key.startswith(("AWS_", "FSSPEC_"))}
    own = {"AWS_ENDPOINT_URL": server, "AWS_EC2_METADATA_DISABLED": "true", "AWS_DEFAULT_REGION": "us-east-1"}
    said = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command("pack", *map(str, words)), env=kept | own | more, **said)  # type: ignore[call-overload,no-any-return]


def pack(server: str, *words: object, code: int = 0, more: dict[str, str] = KEYS) -> Done:
    """`pack`, which must end with a code."""
    with begin(server, *words, **more) as process:
        out, err = process.communicate()
    assert process.returncode == code, err
    return Done(code, out, err)


def stored(bucket: str) -> dict[str, Any]:
    """Moto's own record of each object."""
    from moto.backends import get_backend

    return dict(get_backend("s3")[ACCOUNT]["global"].buckets[bucket].keys.items())


def pictures_in(out: Path) -> dict[str, bytes]:
    return {path: content for path, content in whole(out).items() if path.endswith(".jpg")}


def test_a_bucket_becomes_a_folder_and_shards(
    server: str, bucket: str, pictures: Path, tmp_path: Path
) -> None:
    done = pack(server, f"s3://{bucket}/data", tmp_path / "folder", "--json")
    assert json.loads(done.stdout)["pictures"] == 56
    assert json.loads(done.stdout)["notes"] == []  # every object has a digest
    assert pictures_in(tmp_path / "folder") == whole(pictures)
    assert (
        json.loads(pack(server, f"s3://{bucket}/data", tmp_path / "folder", "--json").stdout)["found"] == 56
    )
    done = pack(server, f"s3://{bucket}/data", tmp_path / "shards", "--to", "shards")
    members = members_of(tmp_path / "shards")
    assert {name: content for name, content in members.items() if name.endswith(".jpg")} == whole(pictures)


def test_tables_in_a_bucket_are_fetched_and_packed(
    server: str, bucket: str, pictures: Path, tmp_path: Path
) -> None:
    for place in (f"s3://{bucket}/tables", f"s3://{bucket}/tables/train.parquet"):
        out = tmp_path / place[-3:]
        pack(server, place, out)
        assert pictures_in(out) == {p: c for p, c in whole(pictures).items() if p.startswith("train")}
        assert not (out / ".fetched").exists()


def test_a_killed_command_goes_on(server: str, bucket: str, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "folder"
    with begin(server, f"s3://{bucket}/data", out, **KEYS) as running:
        while running.poll() is None and len(list(out.rglob("*.jpg"))) < 5:
            time.sleep(0.002)
        running.kill()
    assert pictures_in(out).items() <= whole(pictures).items()
    pack(server, f"s3://{bucket}/data", out)
    assert pictures_in(out) == whole(pictures)


def test_an_object_whose_bytes_are_not_what_the_store_says_is_named(
    server: str, bucket: str, pictures: Path, tmp_path: Path
) -> None:
    objects = stored(bucket)
    name = sorted(key for key in objects if key.endswith(".jpg"))[3]
    content = bytearray((pictures / name.removeprefix("data/")).read_bytes())
    content[-20] ^= 1  # of the same length, and still a JPEG
    damaged = objects[name]
    damaged._value_buffer.seek(0)
    damaged._value_buffer.write(bytes(content))
    for to, said in (
        ("folder", "its bytes are not what the store says"),
        ("shards", "its bytes have the MD5"),
    ):
        done = pack(server, f"s3://{bucket}/data", tmp_path / to, "--to", to, code=4)
        assert f"s3://{bucket}/{name}: {said}" in done.stderr
        assert "1 of 56 pictures cannot be used" in done.stderr
        damaged.checksum_algorithm = damaged.checksum_value = None  # as stores have it that know ETags alone
    assert len(pictures_in(tmp_path / "folder")) == 55
    damaged._value_buffer.seek(0)
    damaged._value_buffer.write((pictures / name.removeprefix("data/")).read_bytes())
    done = pack(server, f"s3://{bucket}/data", tmp_path / "folder")
    assert pictures_in(tmp_path / "folder") == whole(pictures)


def test_what_cannot_be_listed_is_said_in_one_line(server: str, bucket: str, tmp_path: Path) -> None:
    nobody = {"HOME": str(tmp_path)}
    for place, keys, said in (
        (f"s3://{bucket}/data", nobody, "no credentials"),
        ("s3://no-such-bucket/data", KEYS, "does not exist"),
        (f"s3://{bucket}/nothing", KEYS, "nothing lies there"),
        (f"{server}/data", KEYS, "does not list"),
    ):
        done = pack(server, place, tmp_path / "out", code=4, more=keys)
        assert len(done.stderr.splitlines()) == 1
        assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_web_server_gives_what_braces_name(pictures: Path, tmp_path: Path) -> None:
    data = tmp_path / "web"
    data.mkdir()
    for part in ("train", "val"):
        write_parquet(data / f"{part}-0.parquet", rows_of(pictures, part))
    handler = partial(SimpleHTTPRequestHandler, directory=str(data))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{web.server_port}/{{train,val}}-0.parquet"
        pack("", place, tmp_path / "out")
        gone = pack(
            "", f"http://127.0.0.1:{web.server_port}/more-{{0..1}}.parquet", tmp_path / "gone", code=4
        )
        web.shutdown()
    assert pictures_in(tmp_path / "out") == whole(pictures)
    assert "more-0.parquet" in gone.stderr


def test_a_table_of_addresses_is_fetched(server: str, bucket: str, pictures: Path, tmp_path: Path) -> None:
    names = sorted(whole(pictures))
    rows = [f"s3://{bucket}/data/{name},{name.split('/')[1]},{name.split('/')[0]}" for name in names]
    (tmp_path / "a.csv").write_text("\n".join(["path,label,split", *rows]))
    pack(server, tmp_path / "a.csv", tmp_path / "out")
    assert sorted(pictures_in(tmp_path / "out").values()) == sorted(whole(pictures).values())
