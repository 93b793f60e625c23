"""The recipe and its groups `model`, `method` and `runtime`: keys, defaults, ranges, rules between keys."""

from __future__ import annotations

from typing import Any, Literal

import yaml
from pydantic import Field, PositiveInt, model_validator

from mptctl.names import Gate, HeadName, Init, KSchedule
from mptctl.recipe.criterion import CriterionRecipe, Group, GroupWithSettings
from mptctl.recipe.data import ROUNDING, SPEED, DataRecipe
from mptctl.recipe.optim import OptimRecipe

# Default scale s of each head (Liu et al., ECCV 2020).
SCALES: dict[HeadName, float] = {"linear": 1.0, "cosine": 30.0, "linear-margin": 5.0}


class ModelRecipe(GroupWithSettings):
    """The network, and which parts of it are trained."""

    arch: str = Field(
        "resnet18",
        description="a classifier of torchvision by name, timm:NAME, characters-net or digits-net, or one of "
        "your own",
    )
    stem: Literal["imagenet", "small"] = Field(
        "imagenet",
        description="first layers of a ResNet: 7x7 stride 2 and pooling, or 3x3 stride 1 without pooling",
    )
    embedding_dim: PositiveInt | None = Field(
        None, description="width of a linear layer before the classifier"
    )
    pretrained: str | None = Field(
        None, description="torchvision for its weights; a file with weights, a published folder, or a run"
    )
    train: Literal["all", "head"] = Field("all", description="all weights, or the classifier alone")
    freeze: tuple[str, ...] = Field(
        (),
        description="weights or modules that are not trained, by name with * and ?, such as [conv1, layer1]; "
        "norm-statistics: the running statistics of all batch norms",
    )
    drop_path: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="rate of leaving out the last residual block in training, rising from 0 in the first; "
        "default: the network's own",
    )
    head: HeadName = Field(
        "linear",
        description="classifier: linear; cosine: s cos(w, f); linear-margin: s w.f without a trained bias",
    )
    head_scale: float | None = Field(
        None,
        gt=0,
        description="s of a cosine or linear-margin head; default 30 for cosine, 5 for linear-margin",
    )
    head_margin: float = Field(
        0.0,
        description="margin m of a cosine or linear-margin head; training subtracts s * m from the true "
        "class's logit before the criterion",
    )
    dropblock: float = Field(
        0.0,
        ge=0,
        le=1,
        description="part of the maps that DropBlock sets to 0 in the last two stages of a ResNet",
    )
    dropblock_size: PositiveInt = Field(5, description="side of DropBlock's squares, in places of the map")
    settings: dict[str, Any] = Field({}, description="of a network of one's own")

    @model_validator(mode="after")
    def _refuse_margin_of_linear_head(self) -> ModelRecipe:
        """Refuse `head_scale` and `head_margin` for a linear head."""
        for key, value in (("head_scale", self.head_scale), ("head_margin", self.head_margin)):
            if self.head == "linear" and value:
                raise ValueError(
                    f"model.{key}: a linear head has none; set model.head to cosine or linear-margin, "
                    "or leave it out"
                )
        return self

    @model_validator(mode="after")
    def _refuse_double_freezing(self) -> ModelRecipe:
        """Refuse `freeze` with `train: head`, which freezes all but the classifier."""
        if self.freeze and self.train == "head":
            raise ValueError(
                "model.freeze: with model.train head all but the classifier is frozen already; leave one of "
                "them out"
            )
        return self

    @property
    def scale_of_head(self) -> float:
        """The factor s of the head's logits."""
        return SCALES[self.head] if self.head_scale is None else self.head_scale

    @property
    def true_class_margin(self) -> float:
        """The number s * m that training subtracts from the true class's logit before the criterion."""
        return self.scale_of_head * self.head_margin


class MethodRecipe(GroupWithSettings):
    """The method and its loss; defaults are those of the MPT paper."""

    name: str = Field("no-treatment", description="method, set by the command")
    init: Init = Field(
        "fresh",
        description="initial weights: fresh or pretrained ones, or those of the old model or the reference, "
        "with their batch statistics and the classifier rows of classes that they know",
    )
    k: float = Field(4.0, ge=0, description="bias on the logits of new classes in training (Delta of Eq. 2)")
    k_schedule: KSchedule = Field(
        "constant",
        description="k over the epochs: constant, falling linearly to 0 in the last epoch, or rising "
        "linearly from 0 in the first",
    )
    max_nfr: float | None = Field(
        None,
        gt=0,
        lt=100,
        description="methods with a bias: largest NFR, percent; k is the initial value, and moves in the "
        "third quarter of the run so that NFR on the validation part stays within this limit",
    )
    confidence: float = Field(
        0.95,
        gt=0.5,
        lt=1,
        description="level of NFR's two-sided interval, whose upper end is to be within max_nfr",
    )
    gate: Gate = Field(
        "none",
        description="pct and mpt: samples of the distillation: all samples from all teachers; or from the "
        "old model where the student is wrong, and from the reference where the student is right",
    )
    lam: float | None = Field(
        None, ge=0, description="weight of each distillation; default 1.0 for KL, 0.4 for LM"
    )
    alpha: float = Field(1.0, ge=0, description="focal weight of every sample (Eq. 4)")
    beta: float = Field(5.0, ge=0, description="focal weight added where the teacher is right (Eq. 4)")
    tau: float = Field(5.0, gt=0, description="temperature of the KL distance (Eq. 5)")
    tau_squared: bool = Field(False, description="multiply the KL distance by tau squared")
    lm_reduction: Literal["mean", "sum"] = Field(
        "mean",
        description="logit matching over classes: mean as the published code, sum as the paper (Eq. 6)",
    )
    naive_weight: float = Field(1.0, ge=0, description="pct-naive: weight added where the old model is right")
    elodi_old: float = Field(0.6, ge=0, description="elodi: weight of matching the old model's logits")
    elodi_ref: float = Field(0.4, ge=0, description="elodi: weight of matching the ensemble's mean logits")
    elodi_start_epoch: int = Field(6, ge=0, description="elodi: first epoch with matching, counted from 0")
    elodi_top_k: PositiveInt = Field(
        10, description="elodi-topk: largest logits of each teacher that are matched"
    )
    settings: dict[str, Any] = Field({}, description="of a method of one's own")

    @model_validator(mode="after")
    def _refuse_two_movers_of_k(self) -> MethodRecipe:
        """Refuse `max_nfr` with a `k_schedule`, since both move k."""
        if self.max_nfr is not None and self.k_schedule != "constant":
            raise ValueError(
                f"method.max_nfr: moves k itself; set method.k_schedule to constant, got {self.k_schedule}"
            )
        return self


class RuntimeRecipe(Group):
    """Seed, device, precision and caches; only seed and batch statistics change more than rounding."""

    seed: int = Field(0, ge=0, le=2**31 - 1, description="seed of initial weights, order and augmentation")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N", json_schema_extra=ROUNDING)
    precision: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="autocast type of the student's forward pass; in fp32 a GPU's convolutions are in TF32 "
        "where torch allows it, as it does by default, and its matrix products are not",
    )
    teacher_precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="autocast type of the teachers' forward passes"
    )
    channels_last: bool = Field(True, description="memory format of convolutions")
    compile: bool = Field(False, description="compile the student with torch.compile")
    graph: bool | None = Field(
        None,
        description="on a GPU with one worker: from the fourth step on, replay the whole step as one CUDA "
        "graph; null: where that is possible, which it is not with runtime.compile and model.dropblock",
        json_schema_extra=ROUNDING,
    )
    sync_batchnorm: bool = Field(
        False,
        description="with a worker on each of several GPUs: batch normalisation by the statistics of the "
        "global batch, as with one worker; false: by those of each worker's own part",
    )
    deterministic: bool = Field(
        False,
        description="on a GPU, only algorithms whose result does not depend on timing, and no JPEG for the "
        "hardware decoder; slower",
    )
    threads: int = Field(
        0,
        ge=0,
        description="CPU threads of torch; 0: one for pictures of at most 8 pixels, else all cores",
        json_schema_extra=ROUNDING,
    )
    checkpoint_every_steps: int = Field(
        0, ge=0, description="save last.pt every so many steps; 0: once an epoch", json_schema_extra=SPEED
    )
    cache_teachers: bool = Field(False, description="keep teacher logits on disk and share them between runs")
    cache_precision: Literal["fp32", "fp16"] = Field("fp16", description="type of cached teacher logits")
    cache_limit_gb: float = Field(
        20.0, gt=0, description="most disk for cached teacher logits, in gigabytes", json_schema_extra=SPEED
    )


class Recipe(Group):
    """All settings of a training run, which together with the split determine its result.

    Validation raises pydantic's ValidationError; `load_recipe` and `validate_recipe` raise UsageError
    instead.
    """

    data: DataRecipe = Field(default_factory=lambda: DataRecipe.model_validate({}))
    model: ModelRecipe = Field(default_factory=lambda: ModelRecipe.model_validate({}))
    optim: OptimRecipe = Field(default_factory=lambda: OptimRecipe.model_validate({}))
    criterion: CriterionRecipe = Field(default_factory=lambda: CriterionRecipe.model_validate({}))
    method: MethodRecipe = Field(default_factory=lambda: MethodRecipe.model_validate({}))
    runtime: RuntimeRecipe = Field(default_factory=lambda: RuntimeRecipe.model_validate({}))

    @model_validator(mode="after")
    def _refuse_conflicting_groups(self) -> Recipe:
        """Refuse contradicting keys of different groups, and batches in pieces of fewer than 2 pictures."""
        if self.optim.batch_size // self.optim.accumulate < 2:
            raise ValueError("optim.accumulate: pieces of fewer than 2 pictures; batch normalisation needs 2")
        method, patience = self.method, self.optim.patience
        if patience is not None and (method.max_nfr is not None or method.k_schedule != "constant"):
            key = "k_schedule" if method.max_nfr is None else "max_nfr"
            raise ValueError(
                f"optim.patience: ends a run early, and method.{key} moves k over its whole length; leave "
                "one of them out"
            )
        if self.model.train == "head" and self.optim.layer_decay is not None:
            raise ValueError(
                "optim.layer_decay: with model.train head only the classifier is trained; set it to null, or "
                "model.train to all"
            )
        if self.runtime.graph and self.runtime.compile:
            raise ValueError(
                "runtime.graph: cannot hold a compiled student; set it or runtime.compile to false"
            )
        if self.runtime.graph and self.model.dropblock:
            raise ValueError(
                "runtime.graph: would keep the rate of DropBlock, which rises step by step; set it to false, "
                "or model.dropblock to 0"
            )
        weights = self.criterion.class_weights
        if self.data.sampling != "none" and isinstance(weights, str):
            raise ValueError(
                f"criterion.class_weights {weights}: with data.sampling {self.data.sampling} rare classes "
                "would count twice; leave one of the two out"
            )
        return self

    def to_yaml(self) -> str:
        """The recipe as YAML with every key, which `load_recipe` reads back as an equal recipe.

        If the learning rate is scaled with the batch, a comment states the scaled rate.
        """
        optim, comment = self.optim, ""
        if optim.lr_for_batch is not None:
            comment = (
                f"# learning rate at its height: {optim.scaled_lr:g} (optim.lr {optim.lr:g} for batches of "
                f"{optim.lr_for_batch}, {optim.lr_scale}, for this one of {optim.batch_size})\n"
            )
        return comment + str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))
