"""Damaged pictures in every loader: all refuse one, by name, or all read what Pillow reads."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import nvidia.dali.plugin.pytorch  # noqa: F401  # once for all children, which build pipelines of their own
import torch
from torch import Tensor

from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.pictures import decode_by_pillow, resize_and_crop
from mptctl.data.split import Split, make_split
from mptctl.errors import DataError
from mptctl.names import Verify
from mptctl.recipe import DataRecipe
from tests.common import IN_MEMORY, KINDS, levels
from tests.faults.process import memory_limit
from tests.fuzz.damaged_pictures import damaged, sound_pictures

# Pictures that one child of this process looks at, before it ends and its memory is given back.
EACH = 40
# A picture of the most pixels that are let in takes 0.27 GB decoded, and some copies of it.
MEMORY = 6 * 1024**3
SECONDS = 40  # of a processor, for one picture in all loaders; one of 48 x 655,408 pixels took 20
NAME = "victim.jpg"
SIZE = 32  # of the model's input, in pixels
# Loaders resize by their own ways, which differ by one level; the outermost pixels of training crops by more.
LEVELS = 1.001


class Looked(NamedTuple):
    """What came of one damaged picture.

    Attributes:
        number: that makes it again.
        outcome: ``refused by split``, ``refused by loaders``, ``read``, ``read in several ways``, or ``crashed``.
        fault: what must not be; "" where all is well.
        seconds: that it took.
    """

    number: int
    outcome: str
    fault: str
    seconds: float


def picture_of(number: int, seed: int) -> bytes:
    """The damaged picture of a number."""
    return damaged(random.Random(f"{seed}-picture-{number}"), sound_pictures())


def look_at_pictures(numbers: Sequence[int], seed: int, verify: Verify) -> list[Looked]:
    """Give damaged pictures to every loader, some at a time in a process that may crash.

    Args:
        numbers: of the pictures.
        seed: of all of them.
        verify: how `split` looks at them first.
    """
    found: list[Looked] = []
    left = list(numbers)
    while left:
        done = _in_a_child(left[:EACH], seed, verify)
        if len(done) < len(left[:EACH]):
            done.append(Looked(left[len(done)], "crashed", "the process ended", 0.0))
        found += done
        left = left[len(done) :]
    return found


def _in_a_child(numbers: list[int], seed: int, verify: Verify) -> list[Looked]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        child = os.fork()
        if child == 0:
            try:
                memory_limit(MEMORY)()
                with open(os.devnull, "w", encoding="utf-8") as nowhere:
                    os.dup2(nowhere.fileno(), 2)  # decoders warn there
                with results.open("w", encoding="utf-8") as out:
                    for looked in _look_at_each(numbers, seed, verify, Path(folder)):
                        out.write(json.dumps(looked) + "\n")
                        out.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
        return [Looked(*json.loads(line)) for line in lines]


def _look_at_each(numbers: list[int], seed: int, verify: Verify, folder: Path) -> Iterator[Looked]:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # SIGPROF ends the process
        began, place = time.monotonic(), folder / str(number)
        try:
            outcome, fault = _look(picture_of(number, seed), verify, place)
        except Exception as error:  # any but those that a loader may raise is what is looked for
            outcome, fault = "crashed", f"{type(error).__name__}: {error}"[:300]
        yield Looked(number, outcome, fault, round(time.monotonic() - began, 2))


def _look(content: bytes, verify: Verify, place: Path) -> tuple[str, str]:
    sound = sound_pictures()[0]
    for name, data in (
        (f"train/one/{NAME}", content),
        ("train/one/sound.jpg", sound),
        ("val/one/sound.jpg", sound),
    ):
        path = place / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    try:
        split = make_split(
            "imagefolder", run_root=place / "runs", data_root=place / "data", val_fraction=0.0,
            old_fraction=1.0, verify=verify,
        )  # fmt: skip
    except DataError as error:
        return "refused by split", _fault_of_message(error)
    seen: dict[tuple[str, bool], Tensor | None] = {}
    faults: list[str] = []
    for kind in KINDS:
        for crop in (False, True):
            if crop and kind in IN_MEMORY:
                continue
            try:
                seen[kind, crop] = _picture(split, kind, crop, place)
            except DataError as error:
                seen[kind, crop] = None
                faults.append(_fault_of_message(error))
    message_fault = next(filter(None, faults), "")
    if all(image is None for image in seen.values()):
        return "refused by loaders", message_fault
    differs = _difference(content, seen)
    if not differs:
        return "read", message_fault
    return "read in several ways", message_fault or (differs if verify == "decode" else "")


def _picture(split: Split, kind: str, crop: bool, place: Path) -> Tensor:
    augment = "random-resized-crop" if crop else "none"
    # So much larger, no edge is seen that DALI resizes in its own way.
    settings = {"image_size": SIZE, "eval_resize": SIZE + 4, "threads": 1, "augment": augment}
    data = DataRecipe.model_validate({"loader": kind, **settings})
    device = torch.device("cpu")
    loader = make_loader(
        LoadPlan(split, data, "train", batch_size=2, seed=0, train=crop, device=device), place
    )
    try:
        (batch,) = loader.epoch(0)
        names = split.ids(batch.index.numpy()).tolist()
        return levels(loader, batch.images)[names.index(f"train/one/{NAME}")].permute(1, 2, 0)
    finally:
        loader.close()


def _difference(content: bytes, seen: dict[tuple[str, bool], Tensor | None]) -> str:
    """How what loaders read differs from Pillow's reading, or the crop of one from another's; "" where not."""
    refused = [kind for (kind, _), image in seen.items() if image is None]
    if refused:
        return f"{refused[0]} alone refuses it"
    try:
        whole: Tensor | None = resize_and_crop(
            torch.from_numpy(decode_by_pillow(content)), SIZE + 4, SIZE
        ).float()
    except Exception:  # Pillow's plug-ins raise many kinds
        return "Pillow alone refuses it"
    for (kind, crop), image in seen.items():
        other = seen["threaded", True] if crop else whole
        inner = slice(1, -1) if crop else slice(None)
        far = (image - other)[inner, inner].abs().max().item()
        if far > LEVELS:
            return f"{kind}{' crop' if crop else ''} differs by {far:.0f} levels"
    return ""


def _fault_of_message(error: DataError) -> str:
    said = str(error)
    if NAME not in said:
        return f"the message does not name the file: {said[:200]}"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in said):
        return f"a control character in the message: {said[:200]!r}"
    return ""
