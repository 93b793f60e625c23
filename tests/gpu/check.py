"""`make gpu-check`: what only a GPU can show. Runs the GPU tests and the benches, and writes results/*.json.

Needs a CUDA device, torch with Triton, pytest and hypothesis. What needs more (DALI, the verbs) is run where it is
installed, and named where it is not.
"""

import argparse
import importlib.util
import itertools
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# What the program imports beside torch and numpy, wherever a part of it is used.
PROGRAM = ("torchvision", "pydantic", "yaml", "PIL", "tensorboardX", "typer", "rich")
# Of each test file, what it cannot do without. The kernel's brings its fixtures along: no conftest is read for it,
# because that of all tests needs the whole program.
TESTS: dict[str, tuple[str, ...]] = {
    "test_kernel.py": (),
    "test_training.py": PROGRAM,
    "test_dali_mixed.py": (*PROGRAM, "nvidia.dali"),
}
# Benches that need the program, by the name of their file. The kernel's is measured without it.
VERBS: dict[str, tuple[str, ...]] = {
    "gpu-step": ("step", "--recipe", "cifar100"),
    "gpu-step-imagenet": ("step", "--recipe", "imagenet", "--classes", "1000"),
    "gpu-loader": ("loader", "--repeats", "3", "--seconds", "3"),
}
PARTS = ("tests", "kernel", "verbs")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "results", help="folder of the JSON files")
    arguments.add_argument(
        "--repeats", type=int, default=25, help="timed runs of each row of the kernel's table"
    )
    arguments.add_argument(
        "--pictures", type=Path, help="image folder for the loaders; default: generated JPEGs"
    )
    arguments.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="only these")
    given = arguments.parse_args()

    import torch

    if not torch.cuda.is_available():
        say("make gpu-check: no CUDA device here; run it on a machine that has one")
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    about = machine()
    say(f"{about['gpu']}, torch {about['torch']}, triton {about['triton']}")

    failed = []
    if "tests" in given.parts:
        tests = {name: run_tests(name) for name in TESTS}
        write(given.out / "gpu-tests.json", about | {"tests": tests})
        failed += [name for name, result in tests.items() if result.get("failed")]
    if "kernel" in given.parts:
        write(given.out / "gpu-kernel.json", about | bench_kernel(given.repeats))
    if "verbs" in given.parts:
        for name, words in VERBS.items():
            pictures = ("--data-root", str(given.pictures)) if given.pictures and "loader" in words else ()
            found = bench_verb(*words, *pictures)
            write(given.out / f"{name}.json", about | found)
            failed += [name] if "failed" in found else []
    say(f"failed: {', '.join(failed)}" if failed else "all that can run here passed")
    return 1 if failed else 0


def run_tests(name: str) -> dict[str, Any]:
    """Runs one test file in a process of its own; how many passed, failed and were skipped."""
    missing = missing_of(TESTS[name])
    if missing:
        say(f"{name}: not run, {missing}")
        return {"not_run": missing}
    # Without the options of pyproject.toml, of which one needs a plugin that is not there.
    options = ["-p", "no:cacheprovider", "-o", "addopts=-q --import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", f"tests/gpu/{name}", *options]
    # Another torch than the one developed with may warn of other things.
    command += ["-W", "default", *(["--noconftest"] if not TESTS[name] else [])]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    sys.stderr.write(run.stdout[-6000:] + run.stderr[-2000:])
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", run.stdout)}
    failed = counts.pop("failed", 0) + counts.pop("error", 0) + counts.pop("errors", 0)
    # A run that was cut short fails even if no test did.
    return counts | {"failed": failed or int(run.returncode != 0)}


def bench_kernel(repeats: int) -> dict[str, Any]:
    """The rows of `mptctl bench kernel`, measured without the packages that the verb needs."""
    import torch

    from mptctl.bench.loss_timing import (
        CLASSES,
        DTYPES,
        ROWS,
        copy_bandwidth,
        time_losses,
        two_launches,
    )

    device = torch.device("cuda")
    bandwidth, launches = copy_bandwidth(device), two_launches(device)
    say(f"a copy moves {bandwidth / 1e9:,.0f} GB/s; two empty launches in a graph take {launches:.2f} us")
    rows: list[dict[str, Any]] = []
    for n, c in itertools.product(ROWS, CLASSES):
        for dtype in DTYPES:
            times = time_losses(n, c, dtype, device, bandwidth, repeats)
            rows += [asdict(row) for row in times]
            us = {row.name: row.us for row in times}
            say(
                f"{n:5} x {c:6} {dtype:8}: eager {us['eager']:9.1f} us, compile {us['compile']:9.1f}, "
                f"ours {us['ours']:9.1f}; {us['compile'] / us['ours']:5.2f} x compile, "
                f"{times[0].floor_us / us['ours']:4.0%} of the floor's speed"
            )
    return {
        "bench": "kernel",
        "copy_gb_per_s": bandwidth / 1e9,
        "two_launches_us": launches,
        "repeats": repeats,
        "rows": rows,
    }


def bench_verb(*words: str) -> dict[str, Any]:
    """Runs `mptctl bench` with these words; what it found, or why there is nothing."""
    missing = missing_of(PROGRAM)
    if missing:
        say(f"bench {' '.join(words)}: not run, {missing}")
        return {"not_run": missing}
    command = [sys.executable, "-m", "mptctl", "bench", *words, "--json"]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        say(f"bench {' '.join(words)}: failed with exit code {run.returncode}")
        return {"failed": run.returncode}
    found: dict[str, Any] = {"bench_command": " ".join(["mptctl", *command[3:]])} | json.loads(run.stdout)
    for row in found["rows"]:
        say(f"{words[0]}: {row['name']}: {row['images_per_s']:,.0f} images/s")
    return found


def machine() -> dict[str, Any]:
    """Hardware, versions, commit, command and date: what a number is worth nothing without."""
    import torch
    import triton

    gpu = torch.cuda.get_device_properties(0)
    return {
        "gpu": gpu.name,
        "gpu_memory_gb": round(gpu.total_memory / 1e9, 1),
        "multiprocessors": gpu.multi_processor_count,
        "l2_mb": round(gpu.L2_cache_size / 1e6, 1),
        "driver": output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "cpu": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
        # A copy of the tree without its history is told which commit it is.
        "commit": output("git", "rev-parse", "HEAD") or os.environ.get("GIT_COMMIT"),
        "changed_since": bool(output("git", "status", "--porcelain")),
        "command": "make gpu-check",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def output(*command: str) -> str | None:
    """What a command prints, or None where it cannot be run."""
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()


def missing_of(modules: tuple[str, ...]) -> str:
    """Which of the modules are not installed, as a sentence; nothing where all are."""
    names = [module for module in modules if not installed(module)]
    return f"{', '.join(names)} missing" if names else ""


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    say(f"wrote {path}")


def say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
