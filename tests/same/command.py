"""Commands of mptctl in this process, and what they leave, without paths, times and speeds."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mptctl.cli.app import main

# Measured with a clock, or of the moment: two calls differ.
MEASURED = {"seconds", "images_per_s", "data_wait", "seconds_left", "date", "finished", "started"}
# One thread and the CPU, so that a machine gives the same bits again.
HERE = ("--set", "runtime.device=cpu", "--set", "runtime.threads=1")


class Commands:
    """Runs commands in a folder, which is the working folder meanwhile.

    Attributes:
        folder: where the commands run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *words: object) -> dict[str, Any]:
        """Run a command line, and return its exit code, its JSON or its text, and what was wrong."""
        out, err = io.StringIO(), io.StringIO()
        code = 0
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            contextlib.chdir(self.folder),
            patch.object(sys, "argv", ["mptctl", *map(str, words)]),
        ):
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        text = out.getvalue()
        printed = json.loads(text) if "--json" in words and text else text.splitlines()
        result: dict[str, Any] = {"code": code, "out": self.cleaned(printed)}
        if code:
            result["error"] = self.cleaned(
                [line for line in err.getvalue().splitlines() if line.startswith("mptctl:")]
            )
        return result

    def must(self, *words: object) -> dict[str, Any]:
        """Run a command line that others build on; RuntimeError where it fails."""
        result = self.run(*words)
        if result["code"]:
            raise RuntimeError(f"mptctl {' '.join(map(str, words))}: {result}")
        return result

    def cleaned(self, value: Any) -> Any:
        """A JSON value without what is measured, and with PLACE for the folder of the commands."""
        if isinstance(value, dict):
            return {key: self.cleaned(item) for key, item in value.items() if key not in MEASURED}
        if isinstance(value, list):
            return [self.cleaned(item) for item in value]
        return value.replace(str(self.folder), "PLACE") if isinstance(value, str) else value

    def json_lines(self, path: str) -> list[Any]:
        """The lines of a file of JSON objects."""
        lines = (self.folder / path).read_text(encoding="utf-8").splitlines()
        return [self.cleaned(json.loads(line)) for line in lines]

    def text(self, path: str) -> list[str]:
        """The lines of a text file; none where there is no file."""
        file = self.folder / path
        lines: list[str] = self.cleaned(
            file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        )
        return lines


def digest(content: bytes) -> str:
    """A short digest of bytes."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()
