"""What a check has found so far, in files that are whole after each result, and in lines."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.gpu.results import Result

_LONG = 5.0  # seconds, from which on a test that passed is worth a line


class Record:
    """Results by part, written anew after each.

    Args:
        out: folder of check.json, check.xml, check.log and the files of numbers.
        about: the machine.
        seconds: within which the check ends.
    """

    def __init__(self, out: Path, about: dict[str, Any], seconds: float) -> None:
        self.about = about
        self._out, self._begin, self._seconds = out, time.monotonic(), seconds
        self._results: list[tuple[str, Result]] = []
        self._numbers: dict[str, list[dict[str, Any]]] = {}
        out.mkdir(parents=True, exist_ok=True)
        (out / "check.log").write_text("", encoding="utf-8")

    @property
    def has_gpu(self) -> bool:
        return self.about["gpu"] is not None

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._seconds - (time.monotonic() - self._begin)

    def say_machine(self) -> None:
        """The first lines: nothing that comes later means anything without them."""
        gpu = self.about["gpu"]
        if gpu is None:
            self.say("card: NONE" + (" (a rehearsal)" if self.about["rehearsal"] else ""))
        else:
            self.say(f"card: {', '.join(f'{name} {value}' for name, value in gpu.items())}")
            self.say(f"other processes on it: {', '.join(self.about['other_processes'] or []) or 'none'}")
        self.say(f"{self.about['cores']} cores, load {self.about['load']}, Python {self.about['python']}")
        versions = self.about["versions"]
        self.say(", ".join(f"{name} {version or 'MISSING'}" for name, version in versions.items()))
        self.say(f"commit {self.about['commit']}, {self.left:.0f} seconds left")

    def add(self, part: str, result: Result, numbers: str | None = None) -> None:
        """Take a result in, and write everything; what it measured goes into a file of numbers too."""
        self._results.append((part, result))
        if numbers is not None and result.data:
            self._numbers.setdefault(numbers, []).append(result.data)
            self.numbers(numbers, {"rows": self._numbers[numbers]})
        self._write()
        if result.outcome != "passed" or result.message or result.seconds > _LONG:
            data = (
                ", ".join(f"{name} {value}" for name, value in result.data.items()) if numbers is None else ""
            )
            more = "; ".join(text for text in (result.message, data) if text)
            self.say(
                f"{result.outcome.upper():7} {part}: {result.name} ({result.seconds:.1f} s) {more}".rstrip()
            )

    def numbers(self, name: str, found: dict[str, Any]) -> None:
        """Write what was measured, with the machine it was measured on."""
        self._whole(name, json.dumps({"checked_on": self.about} | found, indent=1))

    def say(self, line: str) -> None:
        """A line for the reader, at once, with the seconds since the beginning."""
        line = f"{time.monotonic() - self._begin:6.1f} {line}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        self.log(line)

    def log(self, line: str) -> None:
        """A line for the file alone."""
        with (self._out / "check.log").open("a", encoding="utf-8") as log:
            log.write(line)

    def end(self, rehearse: bool) -> int:
        """Say what became of each part; the exit code: 0 only where everything ran and passed, or was rehearsed."""
        self.say("--- in all")
        for part in dict.fromkeys(part for part, _ in self._results):
            counts = Counter(result.outcome for name, result in self._results if name == part)
            self.say(f"{part}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}")
        for outcome in ("failed", "not run"):
            for part, result in self._results:
                if result.outcome == outcome:
                    self.say(f"{outcome.upper():7} {part}: {result.name}: {result.message}")
        outcomes = {result.outcome for _, result in self._results}
        if "failed" in outcomes:
            return 1
        if "not run" in outcomes and not rehearse:
            self.say("NOT PROVEN: what did not run is not passed")
            return 3
        self.say("REHEARSED: nothing failed but what needs the card" if rehearse else "PASSED")
        return 0

    def _write(self) -> None:
        parts: dict[str, list[dict[str, Any]]] = {}
        suites = ElementTree.Element("testsuites", name="gpu-check")
        for part, result in self._results:
            parts.setdefault(part, []).append(asdict(result))
        for part, results in parts.items():
            suite = ElementTree.SubElement(suites, "testsuite", name=part, tests=str(len(results)))
            for result in results:
                case = ElementTree.SubElement(
                    suite, "testcase", classname=part, name=result["name"], time=f"{result['seconds']:.3f}"
                )
                kind = {"failed": "failure", "not run": "skipped"}.get(result["outcome"])
                if kind is not None:
                    ElementTree.SubElement(case, kind, message=result["message"])
        self._whole("check.json", json.dumps({"checked_on": self.about, "parts": parts}, indent=1))
        self._whole("check.xml", ElementTree.tostring(suites, encoding="unicode"))

    def _whole(self, name: str, text: str) -> None:
        path = self._out / name
        partial = path.with_name(f".{name}.part")
        partial.write_text(text + "\n", encoding="utf-8")
        os.replace(partial, path)
