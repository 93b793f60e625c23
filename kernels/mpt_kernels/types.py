"""The types that all backends share: settings, losses of rows, and the result."""

from typing import Literal, NamedTuple

from torch import Tensor


class MptLossOutput(NamedTuple):
    """The result of `mpt_loss`, on the device of the logits.

    Attributes:
        loss: scalar, the sum of `terms`. Float32 (float64 for float64 logits).
        terms: scalars "ce" and, for each teacher that distils, "fd_old" or "fd_ref", with weights and lambda,
            divided by the normaliser.
        grad: (N, C) in the logits' type, d loss / d logits times `grad_scale`.
        correct: int64 scalars "student" and, for each teacher that is given, "old" or "ref": number of valid
            rows whose first largest logit, without bias, is the target's.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    grad: Tensor
    correct: dict[str, Tensor]


Distance = Literal["kl", "lm"]
Reduction = Literal["mean", "sum"]


class LossSettings(NamedTuple):
    """The settings of the loss, with their defaults; `mpt_kernels.mpt_loss` explains each."""

    num_old: int
    distance: Distance | None = "kl"
    lam_old: float = 1.0
    lam_ref: float = 1.0
    alpha: float = 1.0
    beta: float = 5.0
    tau: float = 5.0
    tau_squared: bool = False
    lm_reduction: Reduction = "mean"
    ce_focal_weight: float = 0.0
    ignore_index: int = -100
    k: float | Tensor = 0.0


class RowLosses(NamedTuple):
    """The parts of each row's loss, (N,) each, 0 on ignored rows; None for a teacher that does not distil."""

    ce: Tensor
    fd_old: Tensor | None
    fd_ref: Tensor | None

    def terms(self) -> dict[str, Tensor]:
        """The parts that there are, by their names."""
        return {name: part for name, part in self._asdict().items() if part is not None}


class TeacherInputs(NamedTuple):
    """A teacher's (N, C_teacher) logits in the compute type, and (N,) bool: whether the teacher is right."""

    logits: Tensor
    right: Tensor


class MaskedInputs(NamedTuple):
    """The inputs of rows and gradient, in the compute type; logits and labels are 0 in rows not valid.

    Attributes:
        z, biased: (N, C) logits of the student, without and with the bias.
        y: (N,) labels.
        valid: (N,) bool; None if every row is known to be valid.
        old, ref: the teachers; None for one that is not given.
    """

    z: Tensor
    biased: Tensor
    y: Tensor
    valid: Tensor | None
    old: TeacherInputs | None
    ref: TeacherInputs | None
