"""`mptctl disagree`: say where two models' predictions differ, and draw the rows to label."""

from __future__ import annotations

import typer

from mptctl.cli.outputs import PAGE, Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.evaluation.labels.draw import Draw, read_traffic
from mptctl.evaluation.labels.report import report_disagreement
from mptctl.evaluation.labels.request import DisagreeRequest
from mptctl.evaluation.labels.slices import read_groups
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.workspace import parse_memory_limit, workspace
from mptctl.evaluation.slices.ranking import slice_columns
from mptctl.files import FilesTogether
from mptctl.inference.named_models import load_traffic
from mptctl.report.documents.labels import disagree_document
from mptctl.report.media.progress_bars import showing_progress


def disagree(asked: DisagreeRequest) -> None:
    """Compare two models' predictions without labels, write the rows to label, and print what was found.

    Raises:
        UsageError: a setting cannot be used, or the file of rows is there already.
        DataError: the predictions do not fit, or none differ.
        MptctlError: a model cannot be used.
    """
    keys = slice_columns(asked.by)
    Limits(confidence=asked.confidence)  # refuses one that is out of range
    if asked.metadata is not None and not keys:
        raise UsageError("--metadata: is for --by; name a column of it, such as --by country")
    if asked.limit == 0:
        raise UsageError("--limit 0: no number of labels shows that nothing flips; give a limit above 0")
    outputs = Outputs()
    outputs.add_file("--out", asked.out, (".csv",))
    outputs.add_file("--page", asked.page, PAGE)
    metadata = [] if asked.metadata is None else [asked.metadata]
    outputs.check([*files_read_for([asked.old, asked.new], asked.run_root), *metadata])
    if asked.out is not None and asked.out.is_file() and asked.out.stat().st_size:
        raise UsageError(f"--out {asked.out}: is there already, perhaps with labels; name another file")
    memory = parse_memory_limit(asked.memory_limit)
    with showing_progress(asked.session) as session, workspace(memory):
        models = load_traffic({"old": asked.old, "new": asked.new}, asked.pictures, session)
        traffic = read_traffic(models["old"], models["new"])
        draw = Draw(traffic, asked.seed, asked.draw, asked.strata)
        limit = None if asked.limit is None else asked.limit / 100
        report = report_disagreement(
            draw, limit, asked.confidence, read_groups(traffic, keys, asked.metadata), asked.out
        )
        _write(asked, draw)
    show(report, disagree_document, as_json=asked.as_json)


def _write(asked: DisagreeRequest, draw: Draw) -> None:
    """Write the files that are asked for, all or none, and print their paths."""
    pictures = asked.pictures or asked.data_root
    with FilesTogether() as together:
        if asked.page is not None:
            from mptctl.report.documents.labels import label_page

            page = label_page(draw, pictures).encode()
            with together.open(asked.page) as stream:
                stream.write(page)
        if asked.out is not None:
            with together.open(asked.out) as stream:
                draw.write_csv(stream, pictures)
    for path in (asked.page, asked.out):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)
