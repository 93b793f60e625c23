"""`mptctl fewshot`: test a model's features on new classes, and add classes from a few pictures."""

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
        "--json --add": "mptctl.release.adding:AddReport",
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
    add: Annotated[
        Path | None,
        typer.Option(
            "--add", metavar="DIR", help="Write a run that knows the classes of DIR/CLASS as well, as --name."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="RUN", help="Of --add: run folder below the run root.")
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
    overwrite: opt.Overwrite = False,
    device: opt.ModelDevice = "auto",
    as_json: opt.Json = False,
) -> None:
    """Measure few-shot accuracy on classes unknown to a run.

    Prints the mean accuracy over episodes with its 95 % interval, for a head fitted to each episode, the
    nearest centroid, and logistic regression; pictures are of the test part.

    With --add, new classes get rows of the head from a few pictures each. One constant is taken off all
    their logits, so that at most 1 % of the right predictions on validation pictures flip.

    With --analysis, runs trained with different margins are compared; their figure is written to --out.

    Examples:

        mptctl fewshot old --way 5 --shot 5

        mptctl fewshot old --add pictures --name old-plus

        mptctl fewshot m-0.3 m0 m0.3 --analysis --out margins.png
    """
    if analysis and add is not None:
        raise UsageError("--add and --analysis: are two things to do; give one")
    if add is not None and name is None:
        raise UsageError("--add: writes a new run; name it with --name RUN")
    if classes is not None and (analysis or add is not None):
        raise UsageError("--classes: is for episodes; leave it out with --add and --analysis")
    if add is not None and episode_flags != EpisodeFlags():
        raise UsageError("--add: has no episodes; leave out --way, --shot, --query, --episodes and --seed")
    if add is None and (name is not None or overwrite):
        raise UsageError("--name and --overwrite: say where --add writes; give --add DIR as well")
    if not analysis and out is not None:
        raise UsageError("--out: is the figure of --analysis; give that as well")
    if not analysis and len(runs) > 1:
        raise UsageError(f"{', '.join(runs)}: name one run, or give --analysis")
    session = Session(run_root, device, data_root=data_root)
    from mptctl.cli.runners.fewshot import add_from_pictures, analyse_features, measure_episodes

    if analysis:
        analyse_features(runs, session, out or run_root / FIGURE, vars(episode_flags), as_json=as_json)
    elif add is not None and name is not None:
        add_from_pictures(runs[0], session, add, name, overwrite=overwrite, as_json=as_json)
    else:
        measure_episodes(runs[0], session, vars(episode_flags), classes, as_json=as_json)
