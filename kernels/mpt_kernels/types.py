"""The types that all backends share: settings in, losses of rows and the result out."""

from typing import Literal, NamedTuple

from torch import Tensor


class MptLossOutput(NamedTuple):
    """The result of `mpt_loss`; everything stays on the device of the logits.

    loss: scalar, the sum of `terms`. Float32 (float64 for float64 logits).
    terms: scalars "ce" and, where that teacher distils, "fd_old" and "fd_ref", each as it enters the loss:
        with its weights and lambda, over the normaliser.
    grad: (N, C) in the logits' type, d loss / d logits times `grad_scale`.
    correct: int64 scalars "student" and, where given, "old" and "ref": valid rows whose first largest logit,
        without bias, is the target's.
    """

    loss: Tensor
    terms: dict[str, Tensor]
    grad: Tensor
    correct: dict[str, Tensor]


Distance = Literal["kl", "lm"]


Reduction = Literal["mean", "sum"]


class LossSettings(NamedTuple):
    """The settings of the loss; `mpt_kernels.mpt_loss` explains them, and takes its defaults here."""

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
    """The losses of each part, (N,); None where the part is off. 0 on ignored rows."""

    ce: Tensor
    fd_old: Tensor | None
    fd_ref: Tensor | None


class TeacherAnswers(NamedTuple):
    """(N, C_teacher) logits in the compute type, and (N,) bool, the rows that they get right."""

    logits: Tensor
    right: Tensor


class MaskedInputs(NamedTuple):
    """The inputs of rows and gradient, in the compute type; 0 in rows that are not valid.

    z, biased: (N, C) logits of the student, without and with the bias.
    y: (N,) labels.
    valid: (N,) bool; None where every row is known to be.
    old, ref: teachers, where given.
    """

    z: Tensor
    biased: Tensor
    y: Tensor
    valid: Tensor | None
    old: TeacherAnswers | None
    ref: TeacherAnswers | None
