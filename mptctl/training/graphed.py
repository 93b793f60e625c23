"""Replays the training step as one CUDA graph, once a few steps have been taken as ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from mptctl.data.loading.mixed import Mixing
from mptctl.data.loading.part import Batch
from mptctl.errors import UsageError, first_line
from mptctl.methods.method import Method
from mptctl.names import Role
from mptctl.training.optimizer.optim import capturable
from mptctl.training.run import Student
from mptctl.training.step import ask_teachers, begin_step, compute_step

# Steps of one kind that are taken before the next one is captured: kernels are compiled in them, algorithms
# of convolutions are chosen, and the optimizer makes its state.
WARM_STEPS = 3

Terms = dict[str, Tensor]


@dataclass(frozen=True)
class Recording:
    """A recorded step.

    Attributes:
        terms: what the step returns; each replay overwrites them.
        replay: takes the step on what its tensors hold now.
        drop: frees what the recording holds; it cannot be replayed any more.
    """

    terms: Terms
    replay: Callable[[], None]
    drop: Callable[[], None]


class Recorder(Protocol):
    """Takes steps, and records one."""

    def warm_up(self, step: Callable[[], Terms]) -> Terms:
        """Take a step."""
        ...

    def record(self, step: Callable[[], Terms]) -> Recording:
        """Record a step without taking it."""
        ...


class CudaRecorder:
    """Captures a step as a CUDA graph; see `Recorder`.

    Args:
        device: a GPU.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # Steps that warm up are taken on the stream of the capture, which cannot be the default one.
        self._stream = torch.cuda.Stream(device)

    def warm_up(self, step: Callable[[], Terms]) -> Terms:
        """Take a step on the stream of the capture, in turn with the current stream."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            terms = step()
        current.wait_stream(self._stream)
        return terms

    def record(self, step: Callable[[], Terms]) -> Recording:
        """Capture a step; other threads, which load batches, go on meanwhile.

        Raises:
            UsageError: the step does something that a graph cannot hold.
            OutOfMemoryError: the graph's memory does not fit beside what is there.
        """
        graph = torch.cuda.CUDAGraph()
        try:
            # The outer block restores the current stream also where the end of a failed capture raises.
            with (
                torch.cuda.stream(self._stream),
                torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"),
            ):
                terms = step()
        except RuntimeError as error:
            # Ending a capture that has failed raises one more error.
            cause = error.__context__ if isinstance(error.__context__, RuntimeError) else error
            if isinstance(cause, torch.OutOfMemoryError):
                raise cause from None
            raise UsageError(
                "runtime.graph: a step of this run cannot be captured as a CUDA graph: "
                f"{first_line(cause)}; set runtime.graph=false"
            ) from error
        return Recording(terms, graph.replay, partial(self._drop, graph))

    def _drop(self, graph: torch.cuda.CUDAGraph) -> None:
        """Wait for the last replay, and free a graph and its memory."""
        torch.cuda.synchronize(self._device)
        graph.reset()


class _Inputs(NamedTuple):
    """What a step reads of its batch.

    Attributes:
        batch: pictures, labels and mixing.
        logits: of teachers outside of the graph, for each part of the batch; None where they are inside.
    """

    batch: Batch
    logits: list[dict[Role, Tensor]] | None

    def tensors(self) -> Iterator[Tensor]:
        """Yield all tensors in a fixed order."""
        yield from (self.batch.images, self.batch.labels, *(self.batch.mixing or ()))
        for part in self.logits or ():
            yield from part.values()

    def copied(self) -> _Inputs:
        """Return inputs of the same shapes in memory of their own."""
        batch = self.batch
        mixing = None if batch.mixing is None else Mixing(*map(torch.clone, batch.mixing))
        return _Inputs(
            replace(batch, images=batch.images.clone(), labels=batch.labels.clone(), mixing=mixing),
            self.logits and [{role: logits.clone() for role, logits in part.items()} for part in self.logits],
        )


@dataclass(frozen=True)
class _Kind:
    """Everything in which a step must equal the recorded one; what else changes is a tensor.

    Attributes:
        method: with k = 0.
        normalizer: of the step.
        roles: of teachers outside of the graph, for each part of the batch.
        layout: shape, strides and type of each of the step's inputs.
    """

    method: Method
    normalizer: float
    roles: tuple[tuple[Role, ...], ...]
    layout: tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]


class _Recorded(NamedTuple):
    """A recorded step.

    Attributes:
        kind: of the step; only steps of this kind can be replayed.
        inputs: the memory that a replay reads.
        recording: replays the step.
    """

    kind: _Kind
    inputs: _Inputs
    recording: Recording


class GraphedStep:
    """Takes training steps as `train_step` does, from the fourth on by replaying a recorded one.

    A step of another kind than the recorded one is taken without the recording: one on a smaller batch, say.
    Three such steps in a row, of another method for example, warm up for a recording that replaces the one
    before. Learning rate, k and the batch are tensors that each step fills anew.

    Args:
        recorder: of the device.
        teachers_inside: whether the recording holds the forward passes of the teachers. It cannot hold reads
            of a cache; cached logits are inputs of each step.
        on_failure: told, in one line, why a step cannot be recorded; all further steps are then taken without
            a recording. None: the error is raised.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        teachers_inside: bool,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self._recorder = recorder
        self._teachers_inside = teachers_inside
        self._on_failure = on_failure
        self._has_failed = False
        self._k: Tensor | None = None
        # The kind of the last step that was not replayed, and how many such steps there were in a row.
        self._warming: _Kind | None = None
        self._warm_steps = 0
        self._recorded: _Recorded | None = None

    def __call__(self, student: Student, batch: Batch, lr: float, normalizer: float) -> Terms:
        """Take an optimizer step on a batch; see `train_step`.

        Returns:
            As `train_step`, but the next call may overwrite the tensors.

        Raises:
            UsageError: the step cannot be captured, and nobody is to be told.
            OutOfMemoryError: likewise, for lack of memory.
        """
        begin_step(student, lr)
        parts = batch.split_into(student.recipe.optim.accumulate)
        inside = self._teachers_inside
        inputs = _Inputs(batch, None if inside else [ask_teachers(student, part) for part in parts])
        kind = _kind(student.method, inputs, normalizer)
        student = replace(student, method=self._with_k_in_memory(student))
        if self._has_failed:
            return _compute(student, inputs, normalizer)
        recorded = self._recorded
        if recorded is None or recorded.kind != kind:
            if not self._is_warm(kind):
                # On a copy, as aligned in memory as the recorded one: Triton compiles a kernel for each
                # alignment.
                own = inputs.copied()
                return self._recorder.warm_up(lambda: _compute(student, own, normalizer))
            try:
                recorded = self._record(student, kind, inputs, normalizer)
            except (UsageError, torch.OutOfMemoryError) as error:
                if self._on_failure is None:
                    raise
                self._has_failed = True
                self._on_failure(f"steps are taken without a CUDA graph: {first_line(error)}")
                return _compute(student, inputs, normalizer)
        for kept, given in zip(recorded.inputs.tensors(), inputs.tensors(), strict=True):
            kept.copy_(given)
        recorded.recording.replay()
        self._warm_steps = 0
        return recorded.recording.terms

    def close(self) -> None:
        """Free the recording."""
        if self._recorded is not None:
            self._recorded.recording.drop()
        self._recorded = None

    def _with_k_in_memory(self, student: Student) -> Method:
        """Return the student's method with k as a tensor of this object, filled with the method's k."""
        method = student.method
        if self._k is None:
            self._k = torch.zeros_like(student.guard.skip)
        k = method.settings.k
        self._k.copy_(k) if isinstance(k, Tensor) else self._k.fill_(k)
        return replace(method, settings=method.settings._replace(k=self._k))

    def _is_warm(self, kind: _Kind) -> bool:
        """Tell whether enough steps of a kind were taken in a row; count this one."""
        self._warm_steps = self._warm_steps + 1 if kind == self._warming else 1
        self._warming = kind
        return self._warm_steps > WARM_STEPS

    def _record(self, student: Student, kind: _Kind, inputs: _Inputs, normalizer: float) -> _Recorded:
        """Record the step in place of what was recorded before."""
        self.close()
        static = inputs.copied()
        with capturable(student.optimizer):
            recording = self._recorder.record(lambda: _compute(student, static, normalizer))
        self._recorded = _Recorded(kind, static, recording)
        return self._recorded


def _kind(method: Method, inputs: _Inputs, normalizer: float) -> _Kind:
    """Collect in what a step must equal another one."""
    return _Kind(
        method=replace(method, settings=method.settings._replace(k=0.0)),
        normalizer=normalizer,
        roles=tuple(tuple(part) for part in inputs.logits or ()),
        layout=tuple((x.shape, x.stride(), x.dtype) for x in inputs.tensors()),
    )


def _compute(student: Student, inputs: _Inputs, normalizer: float) -> Terms:
    """Compute the step that `begin_step` has begun."""
    parts: Sequence[Batch] = inputs.batch.split_into(student.recipe.optim.accumulate)
    return compute_step(student, parts, normalizer, inputs.logits)
