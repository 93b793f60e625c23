"""Loads a trained run for Python programs, to predict pictures exactly as evaluation does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from mptctl.data.derived_splits import make_unlabelled_split
from mptctl.data.exif import orientation_of, turn
from mptctl.data.listing.listing import Checks
from mptctl.data.loading.part import LoadPlan
from mptctl.data.pictures import Normalisation, channels_first, decode, resize_and_crop
from mptctl.data.verify import check_file, has_16_bits
from mptctl.errors import DataError, one_line
from mptctl.evaluation.reading.answers import Answers, answers_from_logits
from mptctl.evaluation.reading.arrays import as_array
from mptctl.inference.predict import load_onto, run_pass
from mptctl.machine.device import choose_device
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.finished import describe_unfinished
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import OnBad, Progress, Session, Verify, tell_nobody
from mptctl.recipe import DataRecipe, Recipe


@dataclass(frozen=True)
class Transform:
    """Prepares a picture as evaluation does, with the very bits of the loaders `resident` and `threaded`.

    Attributes:
        data: the recipe's group `data`: picture size, resizing, mean and std.
    """

    data: DataRecipe
    _normalise: Normalisation = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_normalise", Normalisation(self.data, torch.device("cpu")))

    def __call__(self, picture: Any) -> Tensor:
        """Return a picture as (3, S, S) float32 on the CPU, for the recipe's picture size S; see `crop`."""
        return channels_first(self._normalise(self.crop(picture)[None]))[0]

    def crop(self, picture: Any) -> Tensor:
        """Resize a picture and cut out its centre; ignore transparency, and turn the picture as in training.

        Args:
            picture: path of a JPEG or PNG, a picture of Pillow, or a uint8 array of any library, (H, W, 3) or
                grey (H, W). An array has no EXIF data, and is not turned.

        Returns:
            (S, S, 3) uint8.

        Raises:
            DataError: the file is missing or damaged, or the argument is no picture.
        """
        size = self.data.image_size
        decoded = _read_picture(picture, turns=self.data.exif == "apply")
        return resize_and_crop(decoded, self.data.resized_side, size, self.data.interpolation)


@dataclass(frozen=True, eq=False, repr=False)
class LoadedRun:
    """A trained run, ready to predict.

    Attributes:
        path: of the checkpoint.
        model: network in evaluation mode, on `device`; (B, 3, S, S) float32 -> (B, C) logits.
        class_names: the C classes, in the order of the logits.
        transform: prepares a picture for the model, as (3, S, S) float32.
        recipe: of the run's training.
        device: device of the model.
        unfinished: sentence that says how far an unfinished run came; None for a finished run.
    """

    path: Path
    model: nn.Module
    class_names: tuple[str, ...]
    transform: Transform
    recipe: Recipe
    device: torch.device
    unfinished: str | None

    def __repr__(self) -> str:
        size = self.recipe.data.image_size
        facts = f"{self.recipe.model.arch}, {len(self.class_names):,} classes, pictures of {size} x {size}"
        return f"<LoadedRun: {self.path}, {facts}, on {self.device}>"

    def predict(self, pictures: Iterable[Any]) -> Answers:
        """Predict pictures, which are read one after another; `predict_folder` reads in threads.

        Args:
            pictures: paths, pictures of Pillow, and uint8 arrays (H, W, 3) or (H, W), in any mixture.

        Returns:
            Predicted classes, confidences and logits. A picture's id is its path or, without a path, its
            number in the list, counted from 0.

        Raises:
            DataError: there is no picture, or a picture cannot be read.
            NonFiniteError: logits are NaN.
        """
        if isinstance(pictures, str | os.PathLike | Image.Image):
            raise DataError("predict: one picture, where a list is wanted; write [picture]")
        normalise = Normalisation(self.recipe.data, self.device)
        ids: list[str] = []
        logits: list[Tensor] = []
        for batch in _iterate_batches(pictures, self.recipe.optim.batch_size):
            for picture in batch:
                ids.append(str(picture if isinstance(picture, str | os.PathLike) else len(ids)))
            crops = torch.stack([self.transform.crop(picture) for picture in batch])
            with torch.no_grad():
                logits.append(self.model(channels_first(normalise(crops.to(self.device)))).float().cpu())
        if not ids:
            raise DataError("predict: no picture; give at least one")
        return answers_from_logits(
            str(self.path), np.array(ids, dtype=np.str_), torch.cat(logits).numpy(), self.class_names
        )

    def predict_folder(
        self,
        folder: str | Path,
        *,
        on_bad: OnBad = "fail",
        verify: Verify = "header",
        progress: Progress | None = None,
        data_root: str | Path | None = None,
    ) -> Answers:
        """Predict every picture in a folder and its subfolders, read in threads as in evaluation.

        Args:
            folder: a folder, a table of paths, or tar shards. Ids are paths below a folder; else as in
                `split`.
            on_bad: ``fail`` raises an error on files that are no readable picture; ``quarantine`` leaves them
                out and lists them in the result.
            verify: before predicting, check each file's ``header`` and end, or ``decode`` the whole file.
            progress: called with the number of pictures done.
            data_root: folder that the paths of a table begin in; None: the table's folder.

        Raises:
            DataError: there is no such folder or no picture in it, or a picture is bad.
            UsageError: ``data_root`` is given for a folder.
            NonFiniteError: logits are NaN.
        """
        root, progress = Path(folder).expanduser(), progress or tell_nobody
        checks = Checks(verify, on_bad, progress)
        below = None if data_root is None else Path(data_root)
        split, left_out = make_unlabelled_split(root, self.class_names, checks, below)
        # Not `resident`, which keeps decoded pictures on disk for later passes: these are seen once.
        data = self.recipe.data.model_copy(update={"loader": "threaded"})
        batch_size = self.recipe.optim.batch_size
        plan = LoadPlan(split, data, "test", batch_size, seed=0, train=False, device=self.device)
        try:
            logits = run_pass({"model": self.model}, plan, progress, "pictures")["model"]
        except DataError as error:
            fault = str(error).partition("; ")[0].replace(" since split", " since it was checked")
            raise DataError(
                f"{fault}; repair or remove it; verify decode finds every such file first"
            ) from error
        ids = split.ids(split.indices("test"))
        return answers_from_logits(str(self.path), ids, logits, self.class_names, tuple(left_out))


def load_run(run: str, session: Session) -> LoadedRun:
    """Load a trained run from a session's run root onto the session's device; raises as `mptctl.load`."""
    device = choose_device(session.device)
    checkpoint = load_checkpoint(find_checkpoint(run, session.run_root))
    meta = checkpoint.meta
    unfinished = describe_unfinished(checkpoint.path, meta)
    return LoadedRun(
        path=checkpoint.path,
        model=load_onto(checkpoint, device).eval(),
        class_names=meta.class_names,
        transform=Transform(meta.recipe.data),
        recipe=meta.recipe,
        device=device,
        unfinished=None if unfinished is None else unfinished.sentence,
    )


def _iterate_batches(pictures: Iterable[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield the pictures in lists of ``size``; the last list may be shorter."""
    iterator = iter(pictures)
    while batch := list(islice(iterator, size)):
        yield batch


def _read_picture(picture: Any, *, turns: bool) -> Tensor:
    """Read a path, a picture of Pillow or a uint8 array as (H, W, 3) uint8; raise DataError for others.

    With ``turns``, a path or a picture of Pillow is turned as its EXIF data say.
    """
    if isinstance(picture, str | os.PathLike):
        path = os.fspath(picture)
        try:
            content, facts = Path(path).read_bytes(), check_file(path)
            stored = decode(content, facts.kind, path)
            return turn(stored, facts.orientation) if turns else stored
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); name a JPEG or PNG file") from error
        except DataError as error:
            fault = str(error).removeprefix(f"{path}: ").partition("; ")[0]
            raise DataError(f"{path}: {fault}; give a whole JPEG or PNG") from error
    if isinstance(picture, Image.Image):
        if has_16_bits(picture):
            raise DataError("picture: 16 bits a channel or more; give one with 8")
        try:
            opaque = picture.copy()
            opaque.info.pop("transparency", None)
            stored = torch.from_numpy(np.array(opaque.convert("RGB")))
            return turn(stored, orientation_of(picture)) if turns else stored
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(
                f"picture: cannot be decoded ({one_line(error)[:120]}); give a whole one"
            ) from error
    if picture is None:
        raise DataError("picture: nothing; give a path, a picture of Pillow, or a uint8 array (H, W, 3)")
    array = as_array(picture, "picture", dimensions=(2, 3))
    if array.dtype != np.uint8 or not array.size or array.shape[2:] not in ((), (3,)):
        raise DataError(
            f"picture: an array of {array.dtype}, shape {array.shape}; give uint8 of shape (H, W, 3), or "
            "grey (H, W)"
        )
    rgb = array if array.ndim == 3 else np.repeat(array[..., None], 3, axis=2)
    return torch.from_numpy(np.array(rgb))
