"""The documentation as it is shown: the site is built without a warning, and its pages do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mptctl.errors import GateFailed
from mptctl.machine.facts import has_package
from tests.common import ROOT, CommandLine, environment
from tools.draw_terminal import PAGE, TERMINALS, commands, draw, snippets

pytestmark = pytest.mark.docs

NEEDED = ("mkdocs", "material", "mkdocstrings_handlers.python")
MISSING = [name for name in NEEDED if not has_package(name)]


@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed (make site)")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Strict: a link that leads nowhere, a page outside the navigation or an object that is gone ends it."""
    out = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=environment(NO_MKDOCS_2_WARNING="1", PYTHONPATH=":".join(sys.path)),
    )
    assert out.returncode == 0, out.stderr
    assert "WARNING" not in out.stderr
    api = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    assert "must_keep" in api
    # The reference is one file and three pages; strict, above, also holds the links to their headings.
    method = (tmp_path / "site" / "method.html").read_text(encoding="utf-8")
    assert 'href="reference-keys.html#method"' in method
    fetched, missing = [], []
    for path in (tmp_path / "site").rglob("*.html"):
        if path.name == "404.html":  # a server's, with links from its root
            continue
        text = path.read_text(encoding="utf-8")
        # Links may lead to other hosts; what a page shows, styles and scripts may not come from one.
        sources = re.findall(r'(?<![-\w])(?:src|srcset)="([^"#?]+)', text)
        sources += re.findall(r'<link rel="(?:stylesheet|icon|preconnect)" href="([^"#?]+)', text)
        fetched += [source for source in sources if "//" in source]
        missing += [
            source for source in sources if "//" not in source and not (path.parent / source).exists()
        ]
    assert (fetched, missing) == ([], [])
    # From a disk a browser reads no JSON and starts no worker: index and worker are scripts there.
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()
    assert "javascripts/iframe-worker.js" in (tmp_path / "site" / "research" / "cifar10.html").read_text(
        "utf-8"
    )


@pytest.mark.parametrize("target", TERMINALS, ids=lambda target: target.name)
def test_a_screenshot_is_what_the_program_prints(target: Path) -> None:
    text = target.read_text(encoding="utf-8")
    assert text == draw(TERMINALS[target]), "run: make docs"
    assert "url(" not in text.replace("url(#", "")  # it fetches no font


def test_the_gate_in_ci_does_what_the_page_says(
    mptctl: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    page = PAGE.read_text(encoding="utf-8")
    for snippet in snippets(page):
        exec(snippet, names)
    with pytest.raises(GateFailed):
        names["report"].gate(max_nfr=0.03, confidence=0.95).require_passed()
    assert [mptctl(*words).returncode for words in commands(page)] == [3, 0, 0]
    assert {path.name for path in tmp_path.iterdir()} >= {"gate.yaml", "gate.md", "gate.xml"}


def test_the_page_on_ci_shows_the_workflow_that_is_copied() -> None:
    workflow = (ROOT / "examples" / "ci" / "github.yml").read_text(encoding="utf-8")
    assert workflow[workflow.index("name: gate") :] in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        *("tutorial.md", "update.md", "imagenet.md", "ci.md", "gate.md", "pictures.md", "method.md"),
        *("adjust.md", "training.md", "compare.md", "fewshot.md", "speed.md"),
    ],
)
def test_the_commands_of_a_page_are_commands(name: str) -> None:
    """Every flag that a page types is one of its verb; that verbs and flags exist is what can go stale."""
    import typer.main

    from mptctl.cli.app import app
    from mptctl.cli.docs_page import shown_commands

    typer.main.get_command(app)
    there = {verb.split()[0]: command for verb, command in shown_commands(app)}
    there |= dict(shown_commands(app))
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    typed = [words for line in commands(page) for words in _parts(line)]
    assert typed
    for words in typed:
        verb = " ".join(words[:2]) if " ".join(words[:2]) in there else words[0]
        flags = {flag for param in there[verb].params for flag in (*param.opts, *param.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= flags, words


def _parts(words: list[str]) -> list[list[str]]:
    """`a && mptctl b` as two commands."""
    found = " ".join(words).split("&& mptctl ")
    return [part.split() for part in found]
