"""Lists, fetches and checks objects of object stores and web servers, through fsspec."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from mptctl.data.listing.patterns import expand_braces
from mptctl.data.picture_kinds import EXTENSIONS
from mptctl.errors import DataError, UsageError, one_line, some
from mptctl.files import replacing
from mptctl.files.explained import shown
from mptctl.machine.facts import has_package, require_extra
from mptctl.names import Progress

# Ends of names of files that hold many pictures, or describe such files.
TABLE_FILES = (
    *(".tar", "classes.txt", ".parquet", ".arrow"),
    *("state.json", "dataset_info.json", "dataset_dict.json"),
)
# The package that reads addresses of a protocol.
_PROTOCOLS = {"s3": "s3fs", "gs": "gcsfs", "https": "aiohttp", "http": "aiohttp"}
# An object is bad if its bytes are not what the store says after so many fetches.
_ATTEMPTS = 3
_FILES = (*TABLE_FILES, *EXTENSIONS)
_MD5 = re.compile("[0-9a-f]{32}")


class StoredObject(NamedTuple):
    """One object of a store.

    Attributes:
        path: its path in fsspec, with the bucket or host.
        size: number of its bytes; None where the store does not say.
        changed: its last change in nanoseconds; 0 where the store does not say.
        md5: hexadecimal MD5 digest of its bytes; "" where the store has none.
    """

    path: str
    size: int | None
    changed: int
    md5: str


def is_remote(place: str) -> bool:
    """Tell whether a place is an address of an object store or a web server."""
    return place.partition("://")[0] in _PROTOCOLS and "://" in place


class Store:
    """Reads the object store or web server of an address.

    Args:
        place: the address.

    Attributes:
        root: path of the address in fsspec.

    Raises:
        UsageError: the package that reads such addresses is not installed.
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
        """List all objects below the address, or those that its braces or its file name name, by path.

        Raises:
            DataError: the store cannot be reached, refuses, or has nothing there; or the address is a folder
                of a web server, which cannot be listed; or a key would be a path outside of a copy.
        """
        # A bucket, and a folder in it, may have a dot in their names too.
        is_web = self.place.startswith("http")
        has_file_name = (
            ("." in self.place.rpartition("/")[2]) if is_web else self.place.lower().endswith(_FILES)
        )
        names_files = "{" in self.place or has_file_name
        if is_web and not names_files:
            raise DataError(
                f"{self.place}: a web server does not list what it has; name files with braces, such as "
                "https://HOST/train-{000..127}.parquet"
            )
        try:
            if names_files:
                names = [self._files._strip_protocol(name) for name in expand_braces(self.place)]
                infos = {name: self._files.info(name) for name in names}
            else:
                infos = self._files.find(self.root, detail=True)
        except Exception as error:  # of botocore, aiohttp, gcsfs and the system
            raise DataError(f"{self.place}: {_explain_error(error)}") from error
        objects = [_make_stored_object(path, info) for path, info in sorted(infos.items())]
        if not objects:
            raise DataError(f"{self.place}: nothing lies there; correct the address")
        self._refuse_keys_outside(objects)
        return objects

    def _refuse_keys_outside(self, objects: Sequence[StoredObject]) -> None:
        """Raise DataError for keys that, as paths of files below a folder, would lie outside it.

        A store's key is any text, and `..` in it has no meaning there.
        """
        outside = [
            stored.path
            for stored in objects
            if not {".", ".."}.isdisjoint(stored.path.removeprefix(self.root).split("/"))
        ]
        if outside:
            raise DataError(
                f"{self.place}: {len(outside):,} keys have a part `..` or `.` ({some(map(shown, outside))}), "
                "which as paths of files would lie elsewhere; rename these objects, or name another address"
            )

    def read(self, objects: Sequence[StoredObject]) -> list[bytes | str]:
        """Fetch some objects at once; return the bytes of each, or a text that says what is wrong with it."""
        contents: dict[str, bytes | str] = {}
        for _ in range(_ATTEMPTS):
            wanted = [stored for stored in objects if not isinstance(contents.get(stored.path), bytes)]
            if not wanted:
                break
            fetched = self._files.cat([stored.path for stored in wanted], on_error="return")
            for stored in wanted:
                content = fetched[stored.path]
                if isinstance(content, Exception):
                    contents[stored.path] = _explain_error(content)
                else:
                    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
                    contents[stored.path] = self._find_fault(stored, len(content), digest) or content
        return [contents[stored.path] for stored in objects]

    def fetch(self, objects: Sequence[StoredObject], folder: Path, progress: Progress) -> None:
        """Copy objects into files of a folder; a file that has the object's size already stays.

        Args:
            objects: the objects.
            folder: folder of the files, whose paths in it are those below the address.
            progress: shows how many files are done.

        Raises:
            DataError: an object cannot be fetched, or its bytes are not what the store says.
            StorageError: a file cannot be written.
        """
        for number, stored in enumerate(objects):
            path = folder / stored.path.removeprefix(self.root).strip("/").replace(":", "_")
            if path == folder:
                path = folder / Path(stored.path).name
            if not (path.exists() and path.stat().st_size == stored.size):
                self._fetch_file(stored, path)
            progress("fetching files", number + 1, len(objects))

    def _fetch_file(self, stored: StoredObject, path: Path) -> None:
        """Copy one object into a file, with several attempts; errors: see `fetch`."""
        fault = ""
        for _ in range(_ATTEMPTS):
            digest, size = hashlib.md5(usedforsecurity=False), 0
            with replacing(path) as stream:
                for piece in self._read_pieces(stored):
                    digest.update(piece)
                    size += len(piece)
                    stream.write(piece)
            fault = self._find_fault(stored, size, digest.hexdigest())
            if not fault:
                return
            path.unlink()
        raise DataError(f"{stored.path}: {fault}; put it there again")

    def _read_pieces(self, stored: StoredObject) -> Iterator[bytes]:
        """Yield the bytes of one object, at most 8 MiB at a time; DataError if they cannot be read."""
        try:
            with self._files.open(stored.path, "rb") as remote:
                while piece := remote.read(2**23):
                    yield piece
        except Exception as error:  # of botocore, aiohttp, gcsfs and the system
            raise DataError(f"{stored.path}: {_explain_error(error)}") from error

    def _find_fault(self, stored: StoredObject, size: int, digest: str) -> str:
        """Compare size and MD5 digest of fetched bytes with the store; return what is wrong, or ""."""
        if stored.size is not None and size != stored.size:
            return f"{size:,} bytes came, and the store says {stored.size:,}"
        if stored.md5 and digest != stored.md5 and not self._is_encrypted(stored):
            return f"its bytes have the MD5 digest {digest}, and the store says {stored.md5}"
        return ""

    def _is_encrypted(self, stored: StoredObject) -> bool:
        """Tell whether S3 encrypts an object by a key of its own; its ETag is then no MD5 digest."""
        if not self.place.startswith("s3://"):
            return False
        bucket, _, key = stored.path.partition("/")
        try:
            head = self._files.call_s3("head_object", Bucket=bucket, Key=key)
        except Exception:  # the ETag then counts as a digest
            return False
        return str(head.get("ServerSideEncryption", "")).startswith("aws:kms")


def digest_objects(objects: Sequence[StoredObject]) -> str:
    """Compute a digest of path, size, last change and MD5 digest of objects."""
    return hashlib.blake2b(repr([tuple(stored) for stored in objects]).encode(), digest_size=16).hexdigest()


def _make_stored_object(path: str, info: dict[str, Any]) -> StoredObject:
    """Make the record of an object from what fsspec says of it; an ETag of S3 may be its MD5 digest."""
    etag = str(info.get("ETag", "")).strip('"') if "StorageClass" in info or "Key" in info else ""
    md5 = etag if _MD5.fullmatch(etag) else ""
    if not md5 and info.get("md5Hash"):
        md5 = base64.b64decode(info["md5Hash"]).hex()
    changed = info.get("LastModified")
    nanoseconds = int(changed.timestamp() * 1e9) if isinstance(changed, datetime) else 0
    return StoredObject(path, info.get("size"), nanoseconds, md5)


def _explain_error(error: Exception) -> str:
    """Say in a message what an error of a store means, and what to do."""
    text = one_line(error)[:160]
    kind = type(error).__name__
    if "Credentials" in kind or "credentials" in text:
        return (
            f"no credentials ({text}); set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or "
            "FSSPEC_S3_ANON=true for a public bucket"
        )
    if isinstance(error, PermissionError):
        return f"the store refuses ({text}); check your rights"
    if isinstance(error, FileNotFoundError):
        return f"not there ({text}); correct the address"
    if "checksum" in text.lower():
        return f"its bytes are not what the store says ({text}); put it there again"
    return f"cannot be read ({text or kind}); check address and network"
