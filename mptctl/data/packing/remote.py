"""Pictures in object stores and on web servers, through fsspec: listed, fetched, and checked."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mptctl.data.listing.image_folder import PART_WORDS
from mptctl.data.listing.patterns import expand_braces
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading, Stamp
from mptctl.data.picture_kinds import is_read
from mptctl.errors import DataError, UsageError, one_line, some
from mptctl.files import replacing
from mptctl.machine.facts import has_package, require_extra
from mptctl.names import Progress

_PROTOCOLS = {"s3": "s3fs", "gs": "gcsfs", "https": "aiohttp", "http": "aiohttp"}
# Fetches of an object whose bytes are not what the store says, until it is taken for bad.
_ATTEMPTS = 3
_MD5 = re.compile("[0-9a-f]{32}")


class StoredObject(NamedTuple):
    """One object of a store.

    Attributes:
        path: as fsspec names it.
        size: in bytes; None where the store does not say.
        changed: nanosecond of its last change; 0 where the store does not say.
        md5: digest of its bytes, in hexadecimal; "" where the store has none.
    """

    path: str
    size: int | None
    changed: int
    md5: str


def is_remote(place: str) -> bool:
    """Tell whether a place is an address of an object store or a web server."""
    return place.partition("://")[0] in _PROTOCOLS and "://" in place


class Store:
    """The store that an address leads to.

    Args:
        place: the address.

    Raises:
        UsageError: the packages that read it are not installed.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        protocol = place.partition("://")[0]
        module = _PROTOCOLS[protocol]
        if protocol == "gs" and not has_package(module):
            raise UsageError(f"{place}: needs gcsfs, which is not installed; pip install gcsfs")
        require_extra(module, "remote", place)
        import fsspec

        self._files: Any = fsspec.filesystem(protocol)
        self.root: str = self._files._strip_protocol(place).rstrip("/")

    def list_objects(self) -> list[StoredObject]:
        """All objects below the address, or those that its braces name.

        Raises:
            DataError: the store cannot be reached, refuses, lists nothing, or does not list at all.
        """
        try:
            if "{" in self.place or "." in self.place.rpartition("/")[2]:
                names = [self._files._strip_protocol(name) for name in expand_braces(self.place)]
                found = {name: self._files.info(name) for name in names}
            elif self.place.startswith("http"):
                raise DataError(
                    f"{self.place}: a web server does not list what it has; name files with braces, such as "
                    "https://HOST/train-{000..127}.parquet"
                )
            else:
                found = self._files.find(self.root, detail=True)
        except DataError:
            raise
        except Exception as error:  # of botocore, aiohttp, gcsfs and the system
            raise DataError(f"{self.place}: {_reason(error)}") from error
        objects = [_stored(path, info) for path, info in sorted(found.items())]
        if not objects:
            raise DataError(f"{self.place}: nothing lies there; correct the address")
        return objects

    def read(self, objects: Sequence[StoredObject]) -> list[bytes | str]:
        """The bytes of some objects, fetched at once; of each that is bad, what is wrong with it."""
        contents: dict[str, bytes | str] = {}
        for _ in range(_ATTEMPTS):
            wanted = [each for each in objects if not isinstance(contents.get(each.path), bytes)]
            if not wanted:
                break
            fetched = self._files.cat([each.path for each in wanted], on_error="return")
            for each in wanted:
                content = fetched[each.path]
                if isinstance(content, Exception):
                    contents[each.path] = _reason(content)
                else:
                    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
                    contents[each.path] = self._fault(each, len(content), digest) or content
        return [contents[each.path] for each in objects]

    def fetch(self, objects: Sequence[StoredObject], folder: Path, progress: Progress) -> None:
        """Copy files into a folder, whole and checked, but those that are there already.

        Raises:
            DataError: one is not what the store says that it is, or cannot be fetched.
            StorageError: one cannot be written.
        """
        for number, each in enumerate(objects):
            path = folder / each.path.removeprefix(self.root).strip("/").replace(":", "_")
            if path == folder:
                path = folder / Path(each.path).name
            if not (path.exists() and path.stat().st_size == each.size):
                self._fetch_file(each, path)
            progress("fetching files", number + 1, len(objects))

    def _fetch_file(self, stored: StoredObject, path: Path) -> None:
        fault = ""
        for _ in range(_ATTEMPTS):
            digest, size = hashlib.md5(usedforsecurity=False), 0
            with replacing(path) as stream:
                try:
                    with self._files.open(stored.path, "rb") as remote:
                        while piece := remote.read(2**23):
                            digest.update(piece)
                            size += len(piece)
                            stream.write(piece)
                except Exception as error:  # of botocore, aiohttp, gcsfs and the system
                    raise DataError(f"{stored.path}: {_reason(error)}") from error
            fault = self._fault(stored, size, digest.hexdigest())
            if not fault:
                return
            path.unlink()
        raise DataError(f"{stored.path}: {fault}; put it there again")

    def _fault(self, stored: StoredObject, size: int, digest: str) -> str:
        """The fault of an object's bytes; "" where there is none."""
        if stored.size is not None and size != stored.size:
            return f"{size:,} bytes came, and the store says {stored.size:,}"
        if stored.md5 and digest != stored.md5 and not self._is_encrypted(stored):
            return f"its bytes have the MD5 digest {digest}, and the store says {stored.md5}"
        return ""

    def _is_encrypted(self, stored: StoredObject) -> bool:
        """Tell whether S3 encrypts an object by a key of its own: its ETag is then no digest."""
        if not self.place.startswith("s3://"):
            return False
        bucket, _, key = stored.path.partition("/")
        try:
            head = self._files.call_s3("head_object", Bucket=bucket, Key=key)
        except Exception:  # then its digest counts
            return False
        return str(head.get("ServerSideEncryption", "")).startswith("aws:kms")


@dataclass(frozen=True, eq=False, kw_only=True)
class RemoteSource(PackSource):
    """Pictures in a store, ``PART/CLASS/FILE`` or ``CLASS/FILE`` below an address.

    Attributes:
        store: that has them.
        objects: in the order of the rows.
    """

    store: Store
    objects: list[StoredObject]

    def where(self, row: int) -> str:
        """The address."""
        return f"{self.store.place.partition('://')[0]}://{self.objects[row].path}"

    def stamp(self, row: int) -> Stamp | None:
        """Size and time of the last change, as the store says."""
        size, changed = self.objects[row].size, self.objects[row].changed
        return None if size is None else Stamp(size, changed)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The objects, fetched together by the thread that reads the first of them."""
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            batch = _Batch(self.store, [self.objects[row] for row in chunk])
            yield [Reading(row, partial(batch.read, i)) for i, row in enumerate(chunk)]


class _Batch:
    """Objects that are fetched together, when the first is read."""

    def __init__(self, store: Store, objects: list[StoredObject]) -> None:
        self._store, self._objects = store, objects
        self._contents: list[bytes | str] = []

    def read(self, number: int) -> Original:
        if not self._contents:
            self._contents = self._store.read(self._objects)
        content = self._contents[number]
        if isinstance(content, str):
            raise DataError(content)
        return Original(content, self._objects[number].changed)


def list_remote(store: Store, objects: Sequence[StoredObject]) -> RemoteSource:
    """Tell parts and classes of pictures in a store by their addresses.

    Raises:
        DataError: pictures lie elsewhere than in folders of classes, or there is none.
    """
    kept, ids, names, parts, elsewhere = [], [], [], [], []
    for each in objects:
        path = each.path.removeprefix(store.root).strip("/")
        *folders, file = path.split("/")
        if not is_read(file):
            continue
        part = PART_WORDS.get(folders[0].lower(), "") if len(folders) == 2 else ""
        if not folders or len(folders) > 2 or (len(folders) == 2 and not part):
            elsewhere.append(path)
            continue
        kept.append(each)
        ids.append("/".join(filter(None, (part, folders[-1], file))))
        names.append(folders[-1])
        parts.append(part)
    if elsewhere or not kept or (any(parts) and not all(parts)):
        what = (
            f"pictures outside class folders: {some(elsewhere)}"
            if elsewhere
            else "no pictures in class folders"
        )
        raise DataError(
            f"{store.place}: {what}; expected CLASS/FILE, or train/CLASS/FILE and test/CLASS/FILE"
        )
    class_names = tuple(sorted(set(names)))
    position = {name: label for label, name in enumerate(class_names)}
    unchecked = sum(not each.md5 for each in kept)
    notes = [f"{unchecked:,} of {len(kept):,} objects have no checksum: of these the length is checked alone"]
    return RemoteSource(
        class_names=class_names,
        ids=ids,
        labels=[position[name] for name in names],
        parts=parts,
        notes=notes if unchecked else [],
        store=store,
        objects=kept,
    )


def objects_digest(objects: Sequence[StoredObject]) -> str:
    """Digest of what a store says of its objects."""
    return hashlib.blake2b(repr([tuple(each) for each in objects]).encode(), digest_size=16).hexdigest()


def _stored(path: str, info: dict[str, Any]) -> StoredObject:
    etag = str(info.get("ETag", "")).strip('"') if "StorageClass" in info or "Key" in info else ""
    md5 = etag if _MD5.fullmatch(etag) else ""
    if not md5 and info.get("md5Hash"):
        md5 = base64.b64decode(info["md5Hash"]).hex()
    changed = info.get("LastModified")
    nanoseconds = int(changed.timestamp() * 1e9) if isinstance(changed, datetime) else 0
    return StoredObject(path, info.get("size"), nanoseconds, md5)


def _reason(error: Exception) -> str:
    """Words for a message: the error of a store, and what to do."""
    said = one_line(error)[:160]
    kind = type(error).__name__
    if "Credentials" in kind or "credentials" in said:
        return (
            f"no credentials ({said}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or "
            "FSSPEC_S3_ANON=true for a public bucket"
        )
    if isinstance(error, PermissionError):
        return f"the store refuses ({said}); check your rights"
    if isinstance(error, FileNotFoundError):
        return f"not there ({said}); correct the address"
    if "checksum" in said.lower():
        return f"its bytes are not what the store says ({said}); put it there again"
    return f"cannot be read ({said or kind}); check address and network"
