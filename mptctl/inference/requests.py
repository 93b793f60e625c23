"""The settings of commands that compute with a model: `predict`, `fewshot` and `figure embedding`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mptctl.files.request import Flag, Json, ModelDevice, ModelRequest, Request, RunRoot, argument
from mptctl.names import OnBad, Verify


class PredictRequest(Request):
    """The model, the pictures, and the file of predictions."""

    run: Annotated[str, argument("RUN")]
    """The model: run name, run folder or .pt file."""
    folder: Annotated[Path, argument("DIR")]
    """Folder of pictures, at any depth; ids are paths below it. Or a table of paths, or tar shards
    ('DIR/*.tar')."""
    out: Annotated[Path, Flag("FILE")]
    """File of predictions to write: .npz, .csv or .parquet."""
    run_root: RunRoot = Path("runs")
    data_root: Annotated[Path | None, Flag("DIR")] = None
    """Folder that the paths of a table begin in. (default: the table's folder)"""
    verify: Annotated[Verify, Flag()] = "header"
    """Look at each file's header and ends, or decode it all."""
    on_bad: Annotated[OnBad, Flag()] = "fail"
    """Refuse bad files, or leave them out and name them."""
    device: ModelDevice = "auto"


class EpisodeRequest(Request):
    """The episodes that few-shot accuracy is measured on."""

    way: Annotated[int, Flag("N", low=2)] = 5
    """Classes of an episode."""
    shot: Annotated[int, Flag("N", low=1)] = 1
    """Pictures of each class to learn from."""
    query: Annotated[int, Flag("N", low=1)] = 16
    """Pictures of each class to classify."""
    episodes: Annotated[int, Flag("N", low=1)] = 600
    """Number of episodes."""
    seed: Annotated[int, Flag("N", low=0)] = 0
    """Seed of the episodes."""


class FewShotRequest(EpisodeRequest, ModelRequest):
    """The models whose features are tested, and on what."""

    runs: Annotated[list[str], argument("RUN")]
    """Run name, run folder or .pt file; several with --analysis alone."""
    analysis: Annotated[bool, Flag()] = False
    """Accuracy, and ratio of the variance between classes to that within them, base and novel, by the runs'
    margins."""
    out: Annotated[Path | None, Flag("FILE")] = None
    """Figure of --analysis, .png or .svg. (default: discriminability.png below the run root)"""
    as_json: Json = False


class EmbeddingRequest(ModelRequest):
    """The models whose embedding is drawn."""

    runs: Annotated[list[str], argument("RUN...")]
    """Run names, run folders or .pt files; a panel each."""
    out: Annotated[Path | None, Flag("FILE")] = None
    """A .png or .svg file. (default: embedding.png below the run root)"""
