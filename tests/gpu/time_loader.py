"""The threaded loader by threads and by processes, each row printed as JSON when measured."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mptctl.bench.loader import generate_pictures, repeat_pictures
from mptctl.bench.runners import our_stream
from mptctl.data.loading.part import LoadPlan
from mptctl.data.sources import read_source
from mptctl.data.split import Split
from mptctl.files import scratch_folder
from mptctl.machine.device import keep_freed_memory
from mptctl.machine.facts import usable_cores
from mptctl.recipe import load_recipe
from tests.gpu.card import DEVICE, REHEARSED

# As many as an epoch of the largest batch needs for a hundred batches.
PICTURES = 256 if REHEARSED else 40_000
BATCH = 16 if REHEARSED else 128
# Threads of one process, and processes that share as many cores: what the interpreter's lock takes from threads.
THREADS = (1, 2) if REHEARSED else (1, 2, 4, 8, 16)
PROCESSES = 2 if REHEARSED else 4
WARM_BATCHES = 4


@dataclass(frozen=True)
class Cost:
    """What a picture costs a process: seconds of the processor by user and system, and page faults."""

    user: float
    system: float
    faults: float

    @staticmethod
    def now() -> Cost:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Cost(used.ru_utime, used.ru_stime, used.ru_minflt)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("threads", "one"))
    parser.add_argument(
        "--data-root", type=Path, help="folder of pictures, or a tar file; default: generated"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a run")
    parser.add_argument("--threads", type=int, default=4, help="of one: threads of the loader")
    given = parser.parse_args()
    with scratch_folder() as scratch:
        folder = given.data_root or scratch / "data"
        if given.data_root is None:
            generate_pictures(folder)
        manifest = read_source("imagefolder", folder, needs_test=False).manifest
        split = repeat_pictures(manifest, PICTURES, scratch)
        if given.what == "one":
            tell(one("one", split, scratch, given.seconds, given.threads))
        else:
            threads(split, folder, scratch, given.seconds)
    return 0


def threads(split: Split, folder: Path, scratch: Path, seconds: float) -> None:
    """The threaded loader by threads, with freed memory kept, and by processes."""
    for count in THREADS:
        tell(one(f"threaded, {count} threads", split, scratch, seconds, count))
    most = THREADS[-1]
    with keep_freed_memory():
        tell(one(f"threaded, {most} threads, freed memory kept", split, scratch, seconds, most))
    tell(several(folder, seconds))


def tell(row: dict[str, object]) -> None:
    """A line of JSON for programs, and the same for who looks on."""
    print(json.dumps(row), flush=True)
    print(row, file=sys.stderr, flush=True)


def one(name: str, split: Split, scratch: Path, seconds: float, count: int) -> dict[str, object]:
    """Images/s of the threaded loader with so many threads, and what a picture costs."""
    data = load_recipe("imagenet", ["data.loader=threaded", f"data.threads={count}"]).data
    stream = our_stream(LoadPlan(split, data, "train", BATCH, 0, True, DEVICE), scratch)()
    for _ in range(WARM_BATCHES):
        next(stream)
    begin, before, images = time.perf_counter(), Cost.now(), 0
    while time.perf_counter() - begin < seconds:
        images += len(next(stream))
    elapsed, after = time.perf_counter() - begin, Cost.now()
    stream.close()  # type: ignore[attr-defined]
    return {
        "name": name,
        "threads": count,
        "images_per_s": round(images / elapsed, 1),
        "user_ms": round(1e3 * (after.user - before.user) / images, 3),
        "system_ms": round(1e3 * (after.system - before.system) / images, 3),
        "faults": round((after.faults - before.faults) / images, 1),
    }


def several(folder: Path, seconds: float) -> dict[str, object]:
    """Images/s of processes together, whose threads share the cores: each has a lock of its own."""
    each = max(1, usable_cores() // PROCESSES)
    words = [sys.executable, "-m", "tests.gpu.time_loader", "one", "--data-root", str(folder)]
    words += ["--seconds", str(3 * seconds), "--threads", str(each)]  # they do not begin at the same moment
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    rates = [json.loads(process.communicate()[0])["images_per_s"] for process in processes]
    name = f"threaded, {PROCESSES} processes"
    return {"name": name, "processes": PROCESSES, "threads": each, "images_per_s": round(sum(rates), 1)}


if __name__ == "__main__":
    sys.exit(main())
