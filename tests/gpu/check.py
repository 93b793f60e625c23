"""`make gpu-check`: what only a GPU can show, in parts that are told of at once, each within a limit of time.

Prints the machine first, and what runs and what does not; then one of everything within half a minute, then the long
parts. Whatever ends it, what was found lies in the folder of `--out`: check.json, check.log with all that was printed,
JUnit of each file of tests, and the numbers of each bench, line by line. Exit code 0 says that everything ran and
passed. `--rehearse` tries all of it on a machine without a GPU, as far as that goes: the kernel in Triton's interpreter
and compiled for sm_90, the rest on the CPU; what needs the card is named, and is no failure.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Timer
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels")]

from tests.gpu.machine import installed, machine  # noqa: E402

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
        measures: whether its standard output is numbers, a line of JSON each, which go into a file of its name.
        rehearsal: its words without a GPU; None where nothing of it can be tried.
    """

    part: str
    name: str
    words: tuple[str, ...]
    limit: int
    needs: tuple[str, ...] = ()
    measures: bool = False
    rehearsal: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Result:
    """What came of a task: "passed", "failed" or "not run", which is not passed; and why."""

    part: str
    name: str
    outcome: str
    seconds: float
    message: str


def pytest_task(
    part: str, name: str, limit: int, needs: tuple[str, ...], *which: str, processes: int = 1
) -> Task:
    """A task that gives pytest words; the options of pyproject.toml ask for plugins that may not be there."""
    options = ("-p", "no:cacheprovider", "-o", "addopts=-v --import-mode=importlib", "-rs", "--tb=short")
    # Another torch than the one developed with may warn of other things.
    words = ("-m", "pytest", *which, *options, "-W", "default")
    # Tests of the kernel bring their fixtures along: the conftest of all tests needs the whole program.
    words += () if needs else ("--noconftest",)
    spread, tried = (("-n", str(processes)), ("-n", "2")) if processes > 1 else ((), ())
    return Task(part, name, words + spread, limit, PYTEST + needs, rehearsal=words + tried)


def bench(part: str, name: str, limit: int, rehearsal: tuple[str, ...] | None, *words: str) -> Task:
    """A task that runs `mptctl bench` and keeps the JSON that it prints."""
    command = ("-m", "mptctl", "bench")
    tried = None if rehearsal is None else (*command, *rehearsal, "--device", "cpu", "--json")
    return Task(part, name, (*command, *words, "--json"), limit, PROGRAM, True, tried)


TINY_STEP = ("step", "--recipe", "digits", "--classes", "4", "--steps", "1", "--repeats", "1")
TINY_LOADER = ("loader", "--repeats", "1", "--seconds", "0.1", "--rows", "threaded,dali-cpu")
IMAGENET = ("step", "--recipe", "imagenet", "--classes", "1000")
TIME_THREADS = ("-m", "tests.gpu.time_loader", "threads")
KERNEL, TRAINING, DALI = (f"tests/gpu/test_{name}.py" for name in ("kernel", "training", "dali_mixed"))
CUBIN = "tests/kernels/test_cubin.py"
# Both row kernels, a graph, a step that may not wait, DALI beside Pillow.
ONE_OF_EACH = (
    "(fill_the_device and 128) or (fill_the_device and 257) or captured_graph or (never_waits and mpt-kl) or \
gpu_sees_the_pictures"
)
TASKS = (
    pytest_task("quick", "quick", 120, (*PROGRAM, "nvidia.dali"), KERNEL, TRAINING, DALI, "-k", ONE_OF_EACH),
    # Its kernels take 1.5 s each to compile: a core each. 16 cores beside an H200 took 125 s.
    pytest_task("kernel", "test_kernel", 300, (), KERNEL, processes=max(2, len(os.sched_getaffinity(0)) - 2)),
    pytest_task("kernel", "sm_90", 120, PROGRAM, CUBIN, "-k", "nothing_spills", "-m", "not nightly"),
    bench("kernel", "gpu-kernel", 240, None, "kernel", "--repeats", "7"),
    pytest_task("training", "test_training", 300, PROGRAM, TRAINING),
    pytest_task("graph", "test_graph", 90, PROGRAM, "tests/gpu/test_graph.py"),
    Task("loader", "gpu-loader-threads", (*TIME_THREADS, "--seconds", "1"), 60, PROGRAM, True,
         (*TIME_THREADS, "--seconds", "0.1")),
    pytest_task("loader", "test_dali_mixed", 200, (*PROGRAM, "nvidia.dali"), DALI),
    bench("loader", "gpu-loader", 150, TINY_LOADER, "loader", "--repeats", "2", "--seconds", "2"),
    bench("step", "gpu-step", 120, TINY_STEP, "step", "--recipe", "cifar100"),
    bench("step", "gpu-step-imagenet", 150, None, *IMAGENET),
    bench("full", "gpu-kernel-full", 400, None, "kernel"),
    bench("full", "gpu-step-full", 300, None, "step", "--recipe", "cifar100", "--precision", "fp32,bf16"),
    bench("full", "gpu-step-imagenet-full", 400, None, *IMAGENET, "--precision", "fp32,bf16"),
)  # fmt: skip


class Check:
    """One run of the check: its machine, its log, and what came of each task so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.about, self.results = machine(given.rehearse), list[Result]()
        self._given, self._end = given, time.monotonic() + given.seconds
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "check.log").write_text("", encoding="utf-8")

    def say(self, line: str) -> None:
        """A line for the reader and for the log, at once."""
        print(line, flush=True)
        with (self._given.out / "check.log").open("a", encoding="utf-8") as log:
            print(line, file=log)

    def why_not(self, task: Task) -> str:
        """Why a task does not run here; nothing where it does."""
        if self._given.rehearse and task.rehearsal is None:
            return "needs the card"
        if not self._given.rehearse and self.about["gpu"] is None:
            return "no CUDA device here"
        missing = [module for module in task.needs if not installed(module)]
        return f"{', '.join(missing)} missing" if missing else ""

    def do(self, task: Task) -> None:
        """Run a task, or say why not, and write down what came of it."""
        reason, began, left = self.why_not(task), time.monotonic(), self._end - time.monotonic()
        if not reason and left < 5:
            reason = f"none of the {self._given.seconds} seconds is left"
        outcome, message = ("not run", reason) if reason else self._run(task, left)
        self.results.append(Result(task.part, task.name, outcome, time.monotonic() - began, message))
        found = {"checked_on": self.about, "tasks": [asdict(result) for result in self.results]}
        partial = self._given.out / ".check.json.part"
        partial.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self._given.out / "check.json")
        self.say(f"{outcome.upper()} {task.part}: {task.name} ({self.results[-1].seconds:.0f} s) {message}")

    def _run(self, task: Task, left: float) -> tuple[str, str]:
        """The outcome of a task, and why: it prints into the log, its numbers go into a file, and it ends in time."""
        rehearse, pictures = self._given.rehearse, self._given.pictures
        limit = min(task.limit * (SLOWER if rehearse else 1), left)
        words = (task.rehearsal if rehearse else task.words) or ()
        junit = self._given.out.resolve() / f"{task.name}.xml"
        if "pytest" in words:
            junit.unlink(missing_ok=True)
            words += ("--junitxml", str(junit))
        elif pictures is not None and task.part == "loader":
            words += ("--data-root", str(pictures))
        variables = {"PYTHONPATH": _path(), "PYTHONUNBUFFERED": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        variables |= {"MPTCTL_REHEARSE": "1"} if rehearse else {}
        variables |= {"TRITON_INTERPRET": "1"} if rehearse and task.name == "test_kernel" else {}
        numbers = self._given.out / f"{task.name}.jsonl" if task.measures else Path(os.devnull)
        with numbers.open("w", encoding="utf-8") as kept:
            print(json.dumps({"checked_on": self.about}), file=kept, flush=True)
            out, err = (kept, subprocess.PIPE) if task.measures else (subprocess.PIPE, subprocess.STDOUT)
            with subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, env=os.environ | variables, stdout=out, stderr=err, text=True,
                errors="replace", start_new_session=True,
            ) as process:  # fmt: skip
                timer = Timer(limit, _kill, [process])
                timer.start()
                try:
                    for line in process.stderr or process.stdout or ():
                        self.say(f"    {line.rstrip()}")
                    code = process.wait()
                finally:
                    late = not timer.is_alive()
                    timer.cancel()
                    _kill(process)
        if late:
            return "failed", f"killed after {limit:.0f} s, its limit"
        return (
            ("failed", f"exit code {code}")
            if code
            else _tested(junit)
            if "pytest" in words
            else ("passed", "")
        )

    def end(self) -> int:
        """The exit code: 0 only where everything ran and passed, or was rehearsed."""
        for outcome in ("failed", "not run"):
            for result in self.results:
                if result.outcome == outcome:
                    self.say(f"{outcome.upper()} {result.part}: {result.name}: {result.message}")
        outcomes = {result.outcome for result in self.results}
        if "failed" in outcomes:
            return 1
        if "not run" in outcomes and not self._given.rehearse:
            self.say("NOT PROVEN: what did not run is not passed")
            return 3
        self.say("REHEARSED: nothing failed but what needs the card" if self._given.rehearse else "PASSED")
        return 0


def main(words: list[str] | None = None) -> int:
    check = Check(given := _arguments(words))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    check.say(json.dumps(check.about, indent=1))
    tasks = [task for task in TASKS if task.part in given.parts]
    for task in tasks:
        reason = check.why_not(task)
        check.say(f"{task.part}: {task.name}: {'NOT RUN, ' + reason if reason else 'RUN'}")
    for task in tasks:
        check.do(task)
    return check.end()


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results", help="folder of what is found")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"some of {','.join(PARTS)}, with commas")
    parser.add_argument(
        "--seconds", type=int, default=570, help="within which it ends; a rehearsal takes longer"
    )
    parser.add_argument(
        "--pictures", type=Path, help="train/CLASS/*, or a tar of it, for loaders; else generated"
    )
    parser.add_argument("--rehearse", action="store_true", help="without a GPU: try all that needs none")
    given = parser.parse_args(words)
    given.parts = tuple(part.strip() for part in given.parts.split(","))
    given.pictures = given.pictures and given.pictures.resolve()  # tasks run in another folder
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"--parts {unknown[0]}: unknown; use some of {','.join(PARTS)}")
    return given


def _tested(junit: Path) -> tuple[str, str]:
    """The outcome of tests that did not fail: one that was skipped did not run."""
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    count, skipped = (
        int((suite.attrib if suite is not None else {}).get(key, 0)) for key in ("tests", "skipped")
    )
    outcome = "passed" if count and not skipped else "not run"
    return outcome, f"{count - skipped} passed" + (
        f", {skipped} not run, for the reasons above" if skipped else ""
    )


def _kill(process: subprocess.Popen[str]) -> None:
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
