"""`mptctl fewshot`: test a model's features on new classes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.flag_records import with_flags
from mptctl.cli.json_models import prints
from mptctl.errors import UsageError
from mptctl.names import Session

FIGURE = "discriminability.png"


@dataclass(frozen=True)
class EpisodeFlags:
    """The episodes that accuracy is measured on."""

    way: Annotated[int, typer.Option("--way", metavar="N", help="Classes of an episode.")] = 5
    shot: Annotated[
        int, typer.Option("--shot", metavar="N", help="Pictures of each class that are shown.")
    ] = 1
    query: Annotated[
        int, typer.Option("--query", metavar="N", help="Pictures of each class that are asked.")
    ] = 16
    episodes: Annotated[int, typer.Option("--episodes", metavar="N", help="How many.")] = 600
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the episodes.")] = 0


@prints(
    {
        "--json": "mptctl.inference.few_shot:FewShotReport",
        "--json --analysis": "mptctl.inference.discriminability:DiscriminabilityReport",
    }
)
@with_flags
def fewshot(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN", help="Run name, run folder or .pt file; several with --analysis alone."
        ),
    ],
    *,
    episode_flags: EpisodeFlags,
    classes: Annotated[
        Path | None,
        typer.Option(
            "--classes",
            metavar="FILE",
            help="Draw from these novel classes, one a line. (default: all of the split that RUN does not "
            "know)",
        ),
    ] = None,
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis",
            help="Accuracy, and ratio of the variance between classes to that within them, base and novel, "
            "by the runs' margins.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help=f"Figure of --analysis, .png or .svg. (default: {FIGURE} below the run root)",
        ),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    device: opt.ModelDevice = "auto",
    as_json: opt.Json = False,
) -> None:
    """Measure few-shot accuracy on classes unknown to a run.

    Prints the mean accuracy over episodes with its 95 % interval, for a head fitted to each episode, the
    nearest centroid, and logistic regression; pictures are of the test part.

    With --analysis, runs trained with different margins are compared; their figure is written to --out.

    Examples:

        mptctl fewshot old --way 5 --shot 5

        mptctl fewshot m-0.3 m0 m0.3 --analysis --out margins.png
    """
    if classes is not None and analysis:
        raise UsageError("--classes: is for episodes; leave it out with --analysis")
    if not analysis and out is not None:
        raise UsageError("--out: is the figure of --analysis; give that as well")
    if not analysis and len(runs) > 1:
        raise UsageError(f"{', '.join(runs)}: name one run, or give --analysis")
    session = Session(run_root, device, data_root=data_root)
    from mptctl.cli.runners.fewshot import analyse_features, measure_episodes

    if analysis:
        analyse_features(runs, session, out or run_root / FIGURE, vars(episode_flags), as_json=as_json)
    else:
        measure_episodes(runs[0], session, vars(episode_flags), classes, as_json=as_json)
