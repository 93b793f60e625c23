"""Networks of the package timm, by its names: `timm:NAME`."""

from __future__ import annotations

import difflib
from typing import Any

from torch import nn

from mptctl.errors import UsageError, one_line
from mptctl.machine.facts import require_extra

TIMM = "timm:"


def build_timm(arch: str, num_classes: int, image_size: int, drop_path: float | None = None) -> nn.Module:
    """A network of timm with fresh weights; nothing is downloaded.

    Args:
        arch: ``timm:`` and a name of timm's, without or with a tag of weights, which is left out.
        num_classes: width of the classifier.
        image_size: side of the pictures, in pixels, for networks that are built for one size.
        drop_path: rate at which the last residual block is left out in training; None: timm's default.

    Raises:
        UsageError: timm is not installed, has no such network, or cannot build it so.
    """
    require_extra("timm", "timm", f"model.arch {arch}")
    import timm

    name = arch.removeprefix(TIMM).partition(".")[0]
    if not timm.is_model(name):  # also what names a place to download from
        close = difflib.get_close_matches(name, timm.list_models(), n=1)
        hint = (
            f"did you mean {TIMM}{close[0]}?"
            if close
            else "python -c 'import timm; print(timm.list_models())' lists them"
        )
        raise UsageError(f"model.arch {arch}: timm has no such network; {hint}")
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
    """Name and module of a timm network's classifier; empty where it has none or several."""
    found = model.get_classifier()  # type: ignore[operator]  # timm has no types
    return [(name, module) for name, module in model.named_modules() if module is found]


def timm_layers(model: nn.Module) -> dict[str, int]:
    """The layer number of each weight of a timm network, by timm's layer decay; empty where unknown."""
    from timm.models import group_parameters

    matcher = getattr(model, "group_matcher", None)
    return {} if matcher is None else dict(group_parameters(model, matcher(coarse=False), reverse=True))
