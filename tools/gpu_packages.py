"""Pack the packages that a GPU machine with CPython 3.12 and no network needs beside torch, in small pieces.

    python -m tools.gpu_packages pack OUT            writes OUT/program-00, OUT/dali-00, ... and OUT/SHA256SUMS
    python tools/gpu_packages.py unpack OUT SITE     on that machine, when all pieces are there; then PYTHONPATH=SITE

Needs only Python and pip. Extensions for other versions of Python than 3.12 are not packed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# By archive. The machine has torch, torchvision, Triton, pyarrow and pytest already. DALI is for CUDA 13.0, as
# torch 2.11 is. Ray is what `mptctl study` needs.
PACKAGES: dict[str, tuple[str, ...]] = {
    "program": (
        "pydantic==2.14.4", "pydantic-core==2.50.5", "annotated-types", "typing-inspection", "pyyaml", "tensorboardX",
        "duckdb>=2.0", "torchcodec>=0.16", "execnet", "pytest-xdist", "hypothesis", "sortedcontainers",
    ),
    "dali": (
        "nvidia-dali-cuda130==2.4.0", "nvidia-nvimgcodec-cu13==0.9.0.20", "nvidia-libnvcomp-cu13==5.3.0.16",
        "nvidia-nvjpeg", "nvidia-nvjpeg2k-cu13", "nvidia-nvtiff-cu13",
        "astunparse", "gast", "optree", "makefun", "libcst", "nvtx", "six",
    ),
    "ray": (
        "ray==2.60.0", "attrs", "filelock", "msgpack", "jsonschema", "jsonschema-specifications", "referencing",
        "rpds-py",
    ),
}  # fmt: skip
PIECE = 48 * 2**20  # bytes: with the tree, less than 64 MiB a transfer
# Tags of wheels; pip takes only wheels whose very tag is named, not those of older systems.
TAGS = [f"manylinux_2_{n}_x86_64" for n in (39, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)]
TAGS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
_OTHER_PYTHON = re.compile(r"\.cpython-3(?!12\b)\d+t?-|\.cpython-312t-")


def main() -> int:
    """Pack or unpack, as the command line says."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = arguments.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack")
    packing.add_argument("out", type=Path)
    packing.add_argument("--only", choices=PACKAGES, help="this archive alone")
    unpacking = verbs.add_parser("unpack")
    unpacking.add_argument("out", type=Path)
    unpacking.add_argument("site", type=Path)
    given = arguments.parse_args()
    if given.verb == "pack":
        for name in [given.only] if given.only else PACKAGES:
            pack(name, given.out)
    else:
        unpack(given.out, given.site)
    return 0


def pack(name: str, out: Path) -> None:
    """Fetch the packages of an archive with pip, write its pieces and SHA256SUMS, and print their sizes.

    Earlier pieces of the archive are deleted.

    Args:
        name: of the archive, in `PACKAGES`.
        out: folder of the pieces.
    """
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"{name}-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as site:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--target",
            site,
        ]
        command += ["--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]
        command += [word for tag in TAGS for word in ("--platform", tag)]
        subprocess.run([*command, *PACKAGES[name]], check=True)
        for extension in Path(site).rglob("*.so"):
            if _OTHER_PYTHON.search(extension.name):
                extension.unlink()
        write_pieces(name, Path(site), out, PIECE)
    for piece in out.glob(f"{name}-*"):
        sys.stdout.write(f"{piece}: {piece.stat().st_size / 2**20:.1f} MiB\n")


def write_pieces(name: str, site: Path, out: Path, size: int) -> None:
    """Write a folder of packages as an archive in pieces, and SHA256SUMS of all pieces in the folder.

    Args:
        name: of the archive, lower-case letters; pieces are ``name-00``, ``name-01`` and so on.
        site: folder of the packages.
        out: folder of the pieces.
        size: bytes of a piece at most.
    """
    with tempfile.TemporaryFile() as whole:
        with tarfile.open(fileobj=whole, mode="w:xz", preset=6) as archive:
            archive.add(site, arcname=".")
        whole.seek(0)
        for number, piece in enumerate(iter(lambda: whole.read(size), b"")):
            (out / f"{name}-{number:02}").write_bytes(piece)
    pieces = sorted(path for path in out.iterdir() if re.fullmatch(r"[a-z]+-\d\d", path.name))
    lines = [f"{hashlib.sha256(piece.read_bytes()).hexdigest()}  {piece.name}\n" for piece in pieces]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def unpack(out: Path, site: Path) -> None:
    """Unpack each archive whose pieces are all there, and print which pieces of other archives are missing.

    Args:
        out: folder of the pieces and SHA256SUMS.
        site: folder of packages to unpack into.

    Raises:
        SystemExit: a piece does not have its sum.
    """
    sums = {}
    for line in (out / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, piece_name = line.split()
        sums[piece_name] = digest
    for name in dict.fromkeys(piece_name.partition("-")[0] for piece_name in sums):
        pieces = [out / piece_name for piece_name in sorted(sums) if piece_name.partition("-")[0] == name]
        missing = [piece.name for piece in pieces if not piece.exists()]
        if missing:
            sys.stdout.write(f"{name}: {', '.join(missing)} not here yet\n")
            continue
        with tempfile.TemporaryFile() as whole:
            for piece in pieces:
                content = piece.read_bytes()
                if hashlib.sha256(content).hexdigest() != sums[piece.name]:
                    raise SystemExit(f"{piece}: damaged on its way; bring it once more")
                whole.write(content)
            whole.seek(0)
            with tarfile.open(fileobj=whole, mode="r:xz") as archive:
                archive.extractall(site, filter="data")
        sys.stdout.write(f"{name}: unpacked into {site}\n")


if __name__ == "__main__":
    sys.exit(main())
