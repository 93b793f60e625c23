"""`make gpu-check`: what only a GPU can show, in parts that are told of at once, each within a limit of time.

Prints the machine first, and what runs and what does not; then one of everything within half a minute, then the long
parts. Whatever ends it, what was found lies in the folder of `--out`: check.json, check.xml (JUnit), check.log, and a
file of numbers for each bench. Exit code 0 says that everything ran and passed. `--rehearse` tries all of it on a
machine without a GPU, as far as that goes: the kernel in Triton's interpreter and compiled for sm_90, the step on an
imagined device, the rest on the CPU; what needs the card is named, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]

from tests.gpu.machine import installed, machine  # noqa: E402
from tests.gpu.record import Record  # noqa: E402
from tests.gpu.results import PIPE, Result  # noqa: E402

PARTS = ("quick", "kernel", "training", "graph", "loader", "step", "full")
# What the program imports beside torch and numpy, wherever a part of it is used.
PROGRAM = ("torchvision", "pydantic", "yaml", "PIL", "tensorboardX", "typer", "rich", "duckdb", "pyarrow")
PYTEST = ("pytest", "hypothesis", "xdist")
# Of a rehearsal, whose kernels are interpreted on a few cores, limits are so many times as long.
SLOWER = 4


@dataclass(frozen=True)
class Task:
    """One process of the check.

    Attributes:
        part: that it belongs to.
        name: what it is called in lines and files.
        words: of its command, after the interpreter.
        limit: seconds after which it is killed.
        needs: modules without which it is not begun.
        numbers: file that gets what it measures; None where it only passes or fails.
        rehearsal: its words without a GPU; None where nothing of it can be tried.
    """

    part: str
    name: str
    words: tuple[str, ...]
    limit: int
    needs: tuple[str, ...] = ()
    numbers: str | None = None
    rehearsal: tuple[str, ...] | None = None


def tests(part: str, file: str, limit: int, needs: tuple[str, ...], processes: int) -> Task:
    """A task that runs one file of tests; the options of pyproject.toml ask for plugins that may not be there."""
    options = (
        "-p",
        "tests.gpu.results",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=-q --import-mode=importlib",
    )
    # Another torch than the one developed with may warn of other things.
    words = ("-m", "pytest", f"tests/gpu/{file}", *options, "-W", "default", "--tb=short")
    spread = ("-n", str(processes)) if processes > 1 else ()
    # Tests of the kernel bring their fixtures along: the conftest of all tests needs the whole program.
    alone = () if needs else ("--noconftest",)
    tried = words + alone + (("-n", "2") if processes > 1 else ())
    return Task(part, file, words + spread + alone, limit, PYTEST + needs, None, tried)


def bench(name: str, limit: int, rehearsal: tuple[str, ...] | None, *words: str, part: str) -> Task:
    """A task that runs `mptctl bench` and keeps the JSON that it prints."""
    command = ("-m", "mptctl", "bench")
    tried = None if rehearsal is None else (*command, *rehearsal, "--device", "cpu", "--json")
    return Task(part, name, (*command, *words, "--json"), limit, PROGRAM, f"{name}.json", tried)


def times(name: str, limit: int, *words: str, needs: tuple[str, ...]) -> Task:
    """A task that times loaders by tests.gpu.time_loader, which tells of each row at once."""
    command = ("-m", "tests.gpu.time_loader", *words)
    tried = (*command, "--seconds", "0.1", "--repeats", "1")
    return Task("loader", name, command, limit, needs, f"{name}.json", tried)


TINY_STEP = ("step", "--recipe", "digits", "--classes", "4", "--steps", "1", "--repeats", "1")
TINY_LOADER = ("loader", "--repeats", "1", "--seconds", "0.1", "--rows", "threaded,dali-cpu")
IMAGENET = ("step", "--recipe", "imagenet", "--classes", "1000")
TASKS = (
    Task("quick", "quick", ("-m", "tests.gpu.quick"), 120, (), None, ("-m", "tests.gpu.quick")),
    # Its kernels take 1.5 s each to compile: a core each. 16 cores beside an H200 took 125 s.
    tests("kernel", "test_kernel.py", 300, (), max(2, len(os.sched_getaffinity(0)) - 2)),
    Task(
        "kernel", "gpu-kernel", ("-m", "tests.gpu.time_kernel", "--repeats", "7"), 240, (), "gpu-kernel.json"
    ),
    tests("training", "test_training.py", 300, PROGRAM, 1),
    tests("graph", "test_graph.py", 90, PROGRAM, 1),
    # About 110 s: 24 settings of 2 s and what starts them, then the three fastest twice more.
    times("gpu-loader-sweep", 150, "sweep", "--seconds", "2", needs=(*PROGRAM, "nvidia.dali")),
    times("gpu-loader-threads", 60, "threads", "--seconds", "1", needs=PROGRAM),
    tests("loader", "test_dali_mixed.py", 200, (*PROGRAM, "nvidia.dali"), 1),
    bench("gpu-loader", 150, TINY_LOADER, "loader", "--repeats", "2", "--seconds", "2", part="loader"),
    bench("gpu-step", 120, TINY_STEP, "step", "--recipe", "cifar100", part="step"),
    bench("gpu-step-imagenet", 150, None, *IMAGENET, part="step"),
    Task("full", "gpu-kernel-full", ("-m", "tests.gpu.time_kernel"), 400, (), "gpu-kernel.json"),
    bench(
        "gpu-step-full", 300, None, "step", "--recipe", "cifar100", "--precision", "fp32,bf16", part="full"
    ),
    bench("gpu-step-imagenet-full", 400, None, *IMAGENET, "--precision", "fp32,bf16", part="full"),
)


def main(words: list[str] | None = None) -> int:
    given = _arguments(words)
    record = Record(given.out, machine(given.rehearse), given.seconds)
    tasks = [task for task in TASKS if task.part in given.parts]
    record.say_machine()
    reasons = {task.name: why_not(task, record.has_gpu, given.rehearse) for task in tasks}
    for task in tasks:
        reason = reasons[task.name]
        record.say(f"{task.part}: {task.name}: {'NOT RUN, ' + reason if reason else 'RUN'}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for task in tasks:
        reason = reasons[task.name]
        if not reason and record.left < 5:
            reason = f"none of the {given.seconds} seconds is left"
        if reason:
            record.add(task.part, Result(task.name, "not run", 0.0, reason))
        else:
            run(task, record, given.rehearse, given.pictures)
    return record.end(given.rehearse)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of what is found")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}, with commas")
    parser.add_argument(
        "--seconds", type=int, default=570, help="within which all of it ends; a rehearsal takes longer"
    )
    parser.add_argument(
        "--pictures",
        type=Path,
        help="folder with train/CLASS/*, or a tar of one, for loaders; else generated",
    )
    parser.add_argument("--rehearse", action="store_true", help="without a GPU: try all that needs none")
    given = parser.parse_args(words)
    given.parts = tuple(part.strip() for part in given.parts.split(","))
    given.pictures = given.pictures and given.pictures.resolve()  # tasks run in another folder
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"--parts {unknown[0]}: unknown; use some of {','.join(PARTS)}")
    return given


def why_not(task: Task, has_gpu: bool, rehearse: bool) -> str:
    """Why a task does not run here; nothing where it does."""
    if rehearse and task.rehearsal is None:
        return "needs the card"
    if not rehearse and not has_gpu:
        return "no CUDA device here"
    missing = [module for module in task.needs if not installed(module)]
    return f"{', '.join(missing)} missing" if missing else ""


def run(task: Task, record: Record, rehearse: bool, pictures: Path | None = None) -> None:
    """Run a task within its limit and what is left, and record what it tells, line by line."""
    limit = min(task.limit * (SLOWER if rehearse else 1), record.left)
    words = task.rehearsal if rehearse and task.rehearsal is not None else task.words
    if pictures is not None and ("loader" in words or "tests.gpu.time_loader" in words):
        words += ("--data-root", str(pictures))
    reading, writing = os.pipe()
    environment = os.environ | {"PYTHONPATH": _path(), "PYTHONUNBUFFERED": "1", PIPE: str(writing)}
    if rehearse:
        environment["MPTCTL_REHEARSE"] = "1"
        if task.part in ("quick", "kernel"):
            environment["TRITON_INTERPRET"] = "1"
    record.say(f"--- {task.part}: {task.name}, at most {limit:.0f} s")
    begin = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writing],
        start_new_session=True,
    ) as process:
        os.close(writing)
        printed: list[str] = []
        told = 0

        def take(line: str) -> None:
            nonlocal told
            told += 1
            record.add(task.part, Result(**json.loads(line)), task.numbers)

        keep = printed.append if task.words[1] == "mptctl" else record.log
        readers = [
            _reading(process.stdout, keep),
            _reading(process.stderr, record.log),
            _reading(os.fdopen(reading, "rb"), take),
        ]
        message = ""
        try:
            code = process.wait(timeout=limit)
            message = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            message = f"killed after {limit:.0f} s, its limit"
        finally:
            _kill(process)
            for reader in readers:
                reader.join(timeout=5)
    seconds = time.monotonic() - begin
    if task.words[1] == "mptctl" and not message:
        found = json.loads("".join(printed))
        record.numbers(str(task.numbers), found)
        for row in found["rows"]:
            record.say(f"{task.name}: {row['name']}: {row['images_per_s']:,.0f} images/s")
    if not message and not told and task.words[1] != "mptctl":
        message = "ended without a result"
    record.add(task.part, Result(task.name, "failed" if message else "passed", seconds, message))


def _reading(stream: IO[bytes] | None, take: Callable[[str], None]) -> threading.Thread:
    """A thread that takes the lines of a stream until it ends."""

    def read() -> None:
        with stream or open(os.devnull, "rb") as lines:
            for line in lines:
                take(line.decode(errors="replace"))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _kill(process: subprocess.Popen[Any]) -> None:
    """End a process and those that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _path() -> str:
    more = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(ROOT), str(ROOT / "kernels"), *([more] if more else [])])


if __name__ == "__main__":
    sys.exit(main())
