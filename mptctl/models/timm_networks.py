"""Builds networks of the package timm by name, `timm:NAME`, and finds their classifiers and layers."""

from __future__ import annotations

from typing import Any

from torch import nn

from mptctl.errors import UsageError, did_you_mean, one_line
from mptctl.machine.facts import require_extra

TIMM = "timm:"


def build_timm(arch: str, num_classes: int, image_size: int, drop_path: float | None = None) -> nn.Module:
    """Build a network of timm with fresh weights; download nothing.

    Args:
        arch: ``timm:NAME``; a tag of pretrained weights after the name, as in ``NAME.TAG``, is ignored.
        num_classes: width of the classifier.
        image_size: side of the pictures, in pixels; used for networks that are built for one size.
        drop_path: rate at which the last residual block is skipped in training; None: timm's default.

    Raises:
        UsageError: timm is not installed, has no such network, or cannot build it for this size or drop path.
    """
    require_extra("timm", "timm", f"model.arch {arch}")
    import timm

    name = arch.removeprefix(TIMM).partition(".")[0]
    if not timm.is_model(name):  # also refuses names such as hf-hub:NAME, which download
        hint = did_you_mean(f"{TIMM}{name}", [f"{TIMM}{known}" for known in timm.list_models()])
        hint = hint or "; python -c 'import timm; print(timm.list_models())' lists them"
        raise UsageError(f"model.arch {arch}: timm has no such network{hint}")
    cfg = timm.get_pretrained_cfg(name)
    settings: dict[str, Any] = {"pretrained": False, "num_classes": num_classes}
    if cfg is not None and cfg.fixed_input_size:
        settings["img_size"] = image_size
    no_blocks = f"model.drop_path: {arch} has no residual blocks to leave out; set it to null"
    if drop_path is not None:
        settings["drop_path_rate"] = drop_path
    try:
        model: nn.Module = timm.create_model(name, **settings)
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        if "drop_path_rate" in str(error):
            raise UsageError(no_blocks) from error
        raise UsageError(
            f"model.arch {arch}: cannot be built for pictures of {image_size} x {image_size}: "
            f"{one_line(error)[:160]}; set another data.image_size or architecture"
        ) from error
    if drop_path and not any(type(module).__name__ == "DropPath" for module in model.modules()):
        raise UsageError(no_blocks)
    return model


def timm_classifier(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Names and modules of a timm network that are its one classifier; empty if it has none or several."""
    classifier = model.get_classifier()  # type: ignore[operator]  # timm has no types
    return [(name, module) for name, module in model.named_modules() if module is classifier]


def timm_layers(model: nn.Module) -> dict[str, int]:
    """Layer number of each weight of a timm network, by name, as in timm's layer decay; empty if unknown."""
    from timm.models import group_parameters

    matcher = getattr(model, "group_matcher", None)
    return {} if matcher is None else dict(group_parameters(model, matcher(coarse=False), reverse=True))
