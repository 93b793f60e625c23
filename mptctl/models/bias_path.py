"""The bias k, epoch by epoch, of a run that moves it to keep a budget of flips; a checkpoint holds it."""

from __future__ import annotations

from pydantic import Field

from mptctl.files import Model


class BiasEpoch(Model):
    """One finished epoch."""

    k: float = Field(description="bias on the logits of new classes in it")
    flips: int = Field(description="negative flips on validation samples of old classes after it")


class BiasPath(Model):
    """What the next k is worked out from."""

    left: tuple[float, ...] = Field(
        description="for each epoch of the run, the part of the flips after it that the end is expected to leave"
    )
    epochs: tuple[BiasEpoch, ...] = Field((), description="those that are finished")
