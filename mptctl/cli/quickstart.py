"""`mptctl quickstart`: train, write the page, and print what each update breaks."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from mptctl.cli.show import show
from mptctl.errors import Stopped, UsageError
from mptctl.files import write_atomically
from mptctl.inference.predict import make_test_picture_reader
from mptctl.report.documents.flips_page import render_html
from mptctl.report.documents.study import quickstart_document, watch_study
from mptctl.report.media.progress_bars import print_plain_line
from mptctl.report.media.provenance import digests_of_models, provenance
from mptctl.studies.quickstart import PAGE_NAME, quickstart
from mptctl.studies.requests import QuickstartRequest


def show_quickstart(asked: QuickstartRequest) -> None:
    """Train four models on embedded pictures, write the page of the MPT update's flips, and print the result.

    Raises:
        UsageError: a file or folder is there that must not be written over.
        Stopped: a signal came; the message says how to start anew.
    """
    run_root, console = asked.run_root, Console(stderr=True)
    page = run_root / PAGE_NAME
    _refuse_page(page, overwrite=asked.overwrite)
    try:
        with watch_study(console) as on_update:
            done = quickstart(
                run_root,
                seed=asked.seed,
                overwrite=asked.overwrite,
                on_update=on_update,
                log=partial(print_plain_line, console),
            )
    except Stopped as error:  # the command has no --resume
        message = f"{run_root}: the quickstart was stopped; start it anew with --overwrite"
        raise Stopped(message, error.signum) from error
    pictures = make_test_picture_reader(done.split)
    sources = provenance(sys.argv, digests_of_models(done.found))
    write_atomically(page, render_html(done.flips, pictures, provenance=sources).encode())
    show(done.result, quickstart_document, as_json=asked.as_json)


def _refuse_page(page: Path, *, overwrite: bool) -> None:
    """Refuse to replace a page without ``overwrite``, and to write through a link in any case."""
    if not os.path.lexists(page):
        return
    if page.is_symlink():
        raise UsageError(f"{page}: is a link; move it away, or use another --run-root")
    if not overwrite:
        raise UsageError(f"{page}: already there; start anew with --overwrite, or use another --run-root")
