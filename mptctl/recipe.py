"""What a run is: a frozen, validated recipe, made of a preset, a file and overrides."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mptctl.errors import UsageError

Source = Literal["characters", "digits", "cifar10", "cifar100", "imagefolder"]
MethodName = Literal[
    "no-treatment",
    "pct-naive",
    "pct-kl",
    "pct-lm",
    "mpt-kl",
    "mpt-lm",
    "mpt-nodistill",
    "mpt-kl-nobias",
    "mpt-lm-nobias",
    "elodi",
    "elodi-topk",
]
METHOD_NAMES: tuple[str, ...] = get_args(MethodName)

# Presets that a split's source stands for when no recipe is named.
DEFAULT_PRESET: dict[str, str] = {
    "characters": "characters",
    "digits": "digits",
    "cifar10": "cifar10",
    "cifar100": "cifar100",
    "imagefolder": "imagenet",
}
# A recipe is a page of text; more is a mistake or an attack.
MAX_RECIPE_BYTES = 256 * 1024


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        # Pydantic takes true for 1, so that `lr: yes` would train at 1.0.
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise PydanticCustomError("not_bool", "input should not be true or false")
        return value


class DataRecipe(_Group):
    """What the model sees: picture size, augmentation, normalisation and the loader."""

    image_size: PositiveInt = Field(32, description="side of the square that the model sees, in pixels")
    augment: Literal["pad-crop", "random-resized-crop", "none"] = Field(
        "pad-crop",
        description="training crop: zero padding and a crop of the same size, or a random part resized",
    )
    padding: int = Field(4, ge=0, description="pixels of zero padding on each side, for pad-crop")
    flip: bool = Field(True, description="mirror half of the training pictures left to right")
    scale: tuple[float, float] = Field((0.08, 1.0), description="part of the area, for random-resized-crop")
    ratio: tuple[float, float] = Field((0.75, 4 / 3), description="aspect ratios, for random-resized-crop")
    eval_resize: PositiveInt | None = Field(
        None, description="shorter side before the centre crop in evaluation, in pixels; default: image_size"
    )
    mean: tuple[float, float, float] = Field(
        (0.485, 0.456, 0.406), description="mean of each channel, in 0..1"
    )
    std: tuple[float, float, float] = Field(
        (0.229, 0.224, 0.225), description="deviation of each channel, in 0..1"
    )
    loader: Literal["auto", "resident", "dali", "threaded"] = Field(
        "auto",
        description="how pictures reach the device; auto chooses by size, device and what is installed",
    )
    workers: int = Field(0, ge=0, description="threads of the loader; 0 takes the number of usable cores")
    prefetch: PositiveInt = Field(2, description="batches that are prepared ahead")
    hw_decoder_load: float = Field(
        0.65, ge=0.0, le=1.0, description="part of the JPEGs for the GPU's hardware decoder (dali on a GPU)"
    )
    resident_limit_gb: float = Field(
        4.0,
        gt=0,
        description="most memory for decoded pictures, in gigabytes, before auto prefers dali or threaded",
    )

    @model_validator(mode="after")
    def _ranges_are_ranges(self) -> DataRecipe:
        if min(self.std) <= 0:
            raise ValueError(f"data.std: must be above 0, got {list(self.std)}")
        for key, (low, high) in {"scale": self.scale, "ratio": self.ratio}.items():
            if not 0 < low <= high:
                raise ValueError(
                    f"data.{key}: must be two numbers above 0, the smaller first, got {[low, high]}"
                )
        if self.scale[1] > 1:
            raise ValueError(f"data.scale: a part of the area is at most 1, got {self.scale[1]:g}")
        return self


class ModelRecipe(_Group):
    """Which network is trained, and how much of it."""

    arch: str = Field(
        "resnet18", description="a classifier of torchvision by name, or characters-net or digits-net"
    )
    stem: Literal["imagenet", "small"] = Field(
        "imagenet",
        description="first layers of a ResNet: 7x7 stride 2 and pooling, or 3x3 stride 1 without pooling",
    )
    embedding_dim: PositiveInt | None = Field(
        None, description="width of a linear layer before the classifier"
    )
    pretrained: str | None = Field(
        None, description="torchvision for its weights, or a file with a state dict"
    )
    train: Literal["all", "head"] = Field("all", description="all weights, or the classifier alone")


class OptimRecipe(_Group):
    """How the weights move."""

    name: Literal["sgd", "adamw"] = Field("sgd", description="optimizer")
    lr: float = Field(0.1, gt=0, description="learning rate at its height")
    momentum: float = Field(0.9, ge=0, lt=1, description="momentum of SGD")
    weight_decay: float = Field(5e-4, ge=0, description="L2 penalty (SGD) or decoupled decay (AdamW)")
    nesterov: bool = Field(False, description="Nesterov's momentum, for SGD")
    schedule: Literal["cosine", "step", "constant"] = Field(
        "cosine", description="shape of the learning rate"
    )
    step_epochs: PositiveInt = Field(30, description="epochs between two drops of the step schedule")
    gamma: float = Field(0.1, gt=0, le=1, description="factor of each drop of the step schedule")
    warmup_epochs: float = Field(0.0, ge=0, description="epochs of linear warm-up")
    epochs: PositiveInt = Field(100, description="passes over the training part; the schedule spans them")
    max_steps: PositiveInt | None = Field(
        None, description="stop after so many steps; the schedule spans them"
    )
    batch_size: PositiveInt = Field(128, ge=2, description="pictures of one optimizer step, over all workers")
    accumulate: PositiveInt = Field(1, description="pieces that a batch is computed in")
    clip_grad_norm: float | None = Field(None, gt=0, description="largest norm of the gradient")


class MethodRecipe(_Group):
    """Which loss, and its settings; what is not said is the paper's."""

    name: MethodName = Field("no-treatment", description="method, set by the verb")
    k: float = Field(4.0, description="bias on the logits of new classes in training (Delta of Eq. 2)")
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


class RuntimeRecipe(_Group):
    """Where and how the run computes; beside the seed, nothing here changes more than rounding."""

    seed: int = Field(0, ge=0, le=2**31 - 1, description="seed of initial weights, order and augmentation")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="autocast type of the student's forward pass"
    )
    teacher_precision: Literal["fp32", "bf16"] = Field("fp32", description="autocast type of the teachers")
    channels_last: bool = Field(True, description="memory format of convolutions")
    compile: bool = Field(False, description="compile the student with torch.compile")
    deterministic: bool = Field(
        False, description="on a GPU, only algorithms whose result does not depend on timing; slower"
    )
    threads: int = Field(0, ge=0, description="CPU threads of torch; 0 leaves torch's choice")
    checkpoint_every_steps: int = Field(
        0, ge=0, description="save last.pt every so many steps; 0: once an epoch"
    )
    cache_teachers: bool = Field(False, description="keep teacher logits on disk and share them between runs")
    cache_precision: Literal["fp32", "fp16"] = Field("fp16", description="type of cached teacher logits")
    cache_limit_gb: float = Field(20.0, gt=0, description="most disk for cached teacher logits, in gigabytes")


class Recipe(_Group):
    """Everything that decides what a training run does, beside the split.

    Raises (through `load_recipe`):
        UsageError: an unknown key, a wrong type or a value out of range, with the nearest valid name.
    """

    data: DataRecipe = Field(default_factory=lambda: DataRecipe.model_validate({}))
    model: ModelRecipe = Field(default_factory=lambda: ModelRecipe.model_validate({}))
    optim: OptimRecipe = Field(default_factory=lambda: OptimRecipe.model_validate({}))
    method: MethodRecipe = Field(default_factory=lambda: MethodRecipe.model_validate({}))
    runtime: RuntimeRecipe = Field(default_factory=lambda: RuntimeRecipe.model_validate({}))

    @model_validator(mode="after")
    def _pieces_fit(self) -> Recipe:
        if self.optim.batch_size // self.optim.accumulate < 2:
            raise ValueError("optim.accumulate: pieces of fewer than 2 pictures; batch normalisation needs 2")
        return self

    def to_yaml(self) -> str:
        """The recipe as the YAML that `load_recipe` reads back to an equal recipe."""
        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))


def preset_folder() -> Path:
    """Folder of the presets: inside an installed package, or beside it in a checkout."""
    installed = Path(__file__).parent / "configs"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "configs"


def preset_names() -> list[str]:
    """Names that ``--recipe`` takes, sorted."""
    return sorted(path.stem for path in preset_folder().glob("*.yaml"))


def load_recipe(
    name_or_file: str,
    overrides: Sequence[str] = (),
    fixed: Mapping[str, Any] | None = None,
) -> Recipe:
    """Read a preset or a file, apply overrides, and validate the whole.

    Args:
        name_or_file: a preset's name, or a path to a YAML file.
        overrides: ``key.sub=value`` strings, applied in order.
        fixed: dotted keys and values that the verb decides; they win over everything.

    Raises:
        UsageError: no such recipe, a file that is not safe YAML, or a key or value that is not valid.
    """
    base = _read_yaml(name_or_file)
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {override}: not of the form key.sub=value, such as optim.lr=0.1")
    try:
        merged = OmegaConf.merge(OmegaConf.create(base), OmegaConf.from_dotlist(list(overrides)))
        for key, value in (fixed or {}).items():
            OmegaConf.update(merged, key, value)
        content = OmegaConf.to_container(merged, resolve=False)
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise UsageError(f"recipe {name_or_file}: {_one_line(error)}") from error
    return validate_recipe(content, name_or_file)


def validate_recipe(content: object, where: str) -> Recipe:
    """Turn plain data into a recipe.

    Args:
        content: nested mappings of plain values.
        where: what to call it in a message.

    Raises:
        UsageError: the first problem, with key, expected, got, and the nearest valid name.
    """
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"recipe {where}: {_explain(key, first)}") from error


def validate_method(content: Mapping[str, Any]) -> MethodRecipe:
    """Turn the name and settings of a method into its part of a recipe.

    Raises:
        UsageError: an unknown name or setting, with the nearest valid one.
    """
    return validate_recipe({"method": dict(content)}, str(content.get("name", ""))).method


def recipe_keys() -> dict[str, Any]:
    """Every dotted key of a recipe with its pydantic field, in order."""
    groups = {name: field.annotation for name, field in Recipe.model_fields.items()}
    return {
        f"{group}.{key}": field
        for group, model in groups.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for key, field in model.model_fields.items()
    }


def differences(one: BaseModel, other: BaseModel, prefix: str = "") -> list[str]:
    """Field-by-field differences of two models of one type, as ``key: one -> other`` lines."""
    lines: list[str] = []
    for key in type(one).model_fields:
        mine, theirs = getattr(one, key), getattr(other, key)
        if isinstance(mine, BaseModel) and isinstance(theirs, BaseModel):
            lines += differences(mine, theirs, f"{prefix}{key}.")
        elif mine != theirs:
            lines.append(f"{prefix}{key}: {mine} -> {theirs}")
    return lines


class _SafeLoader(yaml.SafeLoader):  # type: ignore[misc]  # yaml ships no types
    """YAML 1.2's reading of 1e-3 as a number, and no aliases, which can blow a page up to gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line
            raise yaml.YAMLError(f"line {line + 1}: aliases are not allowed")
        return super().compose_node(parent, index)


_SafeLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def _read_yaml(name_or_file: str) -> dict[str, Any]:
    path = Path(name_or_file).expanduser()
    if not path.is_file():
        named = preset_folder() / f"{name_or_file}.yaml"
        if not named.is_file():
            raise UsageError(
                f"recipe {name_or_file}: no such file or preset{_nearest(name_or_file, preset_names())}"
            )
        path = named
    if path.stat().st_size > MAX_RECIPE_BYTES:
        raise UsageError(
            f"recipe {name_or_file}: larger than {MAX_RECIPE_BYTES // 1024} kB; this is not a recipe"
        )
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_SafeLoader)
    # ValueError: a date that is none; RecursionError: brackets in brackets without end.
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as error:
        raise UsageError(f"recipe {name_or_file}: {_one_line(error)}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise UsageError(
            f"recipe {name_or_file}: must be a mapping of groups ({', '.join(Recipe.model_fields)})"
        )
    return content


def _explain(key: str, problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        names = list(recipe_keys()) if "." in key else list(Recipe.model_fields)
        return f"unknown key {key}{_nearest(key, names)}"
    got = problem.get("input")
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return message
    nearest = ""
    if problem["type"] == "literal_error" and isinstance(got, str):
        field = recipe_keys().get(key)
        choices = [c for c in get_args(field.annotation) if isinstance(c, str)] if field else []
        nearest = _nearest(got, choices)
    return f"{key}: {message[:1].lower()}{message[1:]}, got {got!r}{nearest}"


def _nearest(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; valid: {', '.join(names[:12])}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
