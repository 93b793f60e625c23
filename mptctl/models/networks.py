"""Builds a recipe's network: a classifier of torchvision or timm by name, or a small residual net of our own.

torchvision takes about as long to import as torch, so each function that needs torchvision imports it.
"""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import chain, pairwise

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mptctl.errors import UsageError, one_line
from mptctl.files.explained import nearest
from mptctl.machine.facts import has_package
from mptctl.models.heads import find_head, insert_embedding, use_scaled_head
from mptctl.models.layers import insert_drop_block, set_drop_path, trim_convolutions
from mptctl.models.programs import ONNX
from mptctl.models.timm_networks import TIMM, build_timm
from mptctl.names import PLUGINS
from mptctl.recipe import ModelRecipe
from mptctl.recipe.own import Own, all_names, describe_failure, find_own

# torchvision's argument for the size of pictures, by the prefix of networks that are built for one size.
SIZE_ARGUMENTS = {"vit_": "image_size", "maxvit_": "input_size"}
# Side of pictures, in pixels, that every network of torchvision takes.
USUAL_SIZE = 224
# The small nets by name: channels of each stage, and stride of the first convolution.
SMALL_NETS = {"digits-net": ((16, 32, 64), 1), "characters-net": ((16, 32, 64), 2)}
# Pattern of `model.freeze` for the running statistics of all batch norms.
NORM_STATISTICS = "norm-statistics"


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch normalisation and a shortcut.

    Args:
        inputs: channels in.
        outputs: channels out.
        stride: of the first convolution and of the shortcut.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, inputs, H, W) -> (B, outputs, ceil(H / stride), ceil(W / stride))."""
        h = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


class SmallResNet(nn.Module):
    """A residual net for pictures of 8 to 16 pixels: a convolution, one block a stage, average pooling.

    Args:
        num_classes: width of the classifier.
        channels: of each stage; every stage but the first halves height and width.
        stride: of the first convolution.
    """

    def __init__(self, num_classes: int, channels: tuple[int, ...], stride: int) -> None:
        super().__init__()
        first = channels[0]
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 3, stride, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU()
        )
        self.stages = nn.Sequential(
            ResidualBlock(first, first, 1),
            *(ResidualBlock(inputs, outputs, 2) for inputs, outputs in pairwise(channels)),
        )
        self.fc = nn.Linear(channels[-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, 3, H, W) -> logits: (B, num_classes)."""
        features: Tensor = self.stages(self.stem(x)).mean(dim=(2, 3))
        logits: Tensor = self.fc(features)
        return logits


def build_model(recipe: ModelRecipe, num_classes: int, image_size: int) -> nn.Module:
    """Make the network of a recipe with fresh weights.

    Args:
        recipe: architecture, stem, embedding, head, DropBlock, drop path, and which weights are trained.
        num_classes: width of the classifier.
        image_size: side of the pictures, in pixels.

    Returns:
        A module from (B, 3, image_size, image_size) to logits (B, num_classes). Weights require a gradient
        unless ``train: head`` (all but the classifier's) or a pattern of ``freeze`` excludes them.

    Raises:
        UsageError: the architecture is unknown, has no linear classifier, has not the layers that the recipe
            changes or freezes, or takes no pictures of this size.
    """
    model = _build_architecture(recipe, num_classes, image_size)
    if recipe.stem == "small":
        _use_small_stem(model, recipe.arch)
    fault = None if recipe.arch in SMALL_NETS else _find_size_fault(model, image_size)
    # A fault at the usual size too is none of the size: shapes alone do not run every network.
    if fault is not None and _find_size_fault(model, USUAL_SIZE) is None:
        raise _size_error(recipe.arch, image_size, fault)
    if recipe.embedding_dim is not None:
        insert_embedding(model, recipe.arch, recipe.embedding_dim)
    if recipe.head != "linear":
        use_scaled_head(model, recipe)
    if recipe.dropblock:
        insert_drop_block(model, recipe.arch, recipe.dropblock, recipe.dropblock_size)
    trim_convolutions(model)
    if recipe.train == "head":
        head = {id(p) for p in find_head(model, recipe.arch)[1].parameters()}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in head)
    _freeze(model, recipe.freeze, recipe.arch)
    return model


def build_outline(recipe: ModelRecipe, num_classes: int, image_size: int) -> nn.Module:
    """Build the network of `build_model` on the device "meta", without memory for weights; RegNet on the CPU.

    Raises:
        UsageError: as `build_model`.
    """
    try:
        with torch.device("meta"):
            return build_model(recipe, num_classes, image_size)
    except NotImplementedError:  # RegNet takes its widths out of a tensor
        return build_model(recipe, num_classes, image_size)


def set_training_mode(model: nn.Module, recipe: ModelRecipe) -> None:
    """Put a model into training mode, in place; frozen parts keep their batch statistics."""
    model.train(recipe.train == "all")
    if recipe.train == "head":
        find_head(model, recipe.arch)[1].train()
    if recipe.freeze:
        _freeze_statistics(model, recipe.freeze)


def _freeze(model: nn.Module, patterns: Sequence[str], arch: str) -> None:
    """Set ``requires_grad`` to False for the weights that patterns match, in place.

    Args:
        model: the network.
        patterns: names of weights or of modules, with * and ?. `NORM_STATISTICS` is only checked here; see
            `_freeze_statistics`.
        arch: its architecture's name, for messages.

    Raises:
        UsageError: a pattern matches nothing, or nothing is left to train.
    """
    weights = dict(model.named_parameters())
    for pattern in patterns:
        if pattern == NORM_STATISTICS:
            if not _batch_norms(model):
                raise UsageError(f"model.freeze {pattern}: {arch} has no batch norms; leave it out")
            continue
        matched = [name for name in weights if _matches(name, pattern)]
        if not matched:
            names = [*(name for name, _ in model.named_children()), NORM_STATISTICS]
            raise UsageError(
                f"model.freeze {pattern}: no weight or module of {arch} is so called{nearest(pattern, names)}"
            )
        for name in matched:
            weights[name].requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise UsageError(f"model.freeze: leaves nothing of {arch} to train; leave a pattern out")


def _freeze_statistics(model: nn.Module, patterns: Sequence[str]) -> None:
    """Put frozen batch norms into evaluation mode, in place, so that their running statistics stay.

    With `NORM_STATISTICS` among the patterns all batch norms are frozen, else those whose weights all are.
    """
    for norm in _batch_norms(model):
        weights = list(norm.parameters())
        has_frozen_weights = bool(weights) and not any(weight.requires_grad for weight in weights)
        if NORM_STATISTICS in patterns or has_frozen_weights:
            norm.eval()


def _batch_norms(model: nn.Module) -> list[nn.Module]:
    """List the batch-norm layers of a network."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a pattern names a weight, or a module that contains the weight."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _build_own(own: Own, recipe: ModelRecipe, num_classes: int, image_size: int) -> nn.Module:
    """Build a network of one's own, with a classifier as wide as its features are.

    Raises:
        UsageError: its name is taken, its code fails, or it does not give features (B, D) of pictures of
            this size.
    """
    from torchvision import models

    what = f"network {own.name}"
    if own.name in (*SMALL_NETS, ONNX, *models.list_models(module=models)):
        raise UsageError(f"{what}: the name is taken: is one of mptctl or torchvision; give it another name")
    picture = torch.zeros(2, 3, image_size, image_size)
    try:
        features = own.function(own.settings.model_validate(recipe.settings))
        features.eval()
        with torch.no_grad():
            shape = tuple(features(picture).shape)
        features.train()
    except Exception as error:
        raise UsageError(f"{what}: {describe_failure(error, own.file)}; in {own.file}") from error
    if len(shape) != 2 or shape[0] != len(picture):
        raise UsageError(
            f"{what}: must give features of shape (B, D), got {shape} for {len(picture)} pictures"
        )
    return nn.Sequential(OrderedDict(features=features, head=nn.Linear(shape[1], num_classes)))


def _build_architecture(recipe: ModelRecipe, num_classes: int, image_size: int) -> nn.Module:
    """Build a network by its name, with the linear classifier and stem that its package gives it.

    Raises:
        UsageError: the name is unknown, or the network has no linear classifier or no blocks for
            ``drop_path``.
    """
    model: nn.Module
    arch, own = recipe.arch, find_own("network", recipe.arch)
    if own is not None:
        model = _build_own(own, recipe, num_classes, image_size)
    elif arch in SMALL_NETS:
        model = SmallResNet(num_classes, *SMALL_NETS[arch])
    elif arch.startswith(TIMM):
        model = build_timm(arch, num_classes, image_size, recipe.drop_path)
    elif arch == ONNX:
        raise UsageError(
            f"model.arch {arch}: is a program, which is asked and never trained; name an architecture"
        )
    else:
        model = _build_torchvision(arch, num_classes, image_size)
    if not arch.startswith(TIMM):
        set_drop_path(model, arch, recipe.drop_path)
    find_head(model, arch)  # refuses a network without a linear classifier
    return model


def _build_torchvision(arch: str, num_classes: int, image_size: int) -> nn.Module:
    """Build a network of torchvision; UsageError if there is none of this name, or not for this size."""
    from torchvision import models

    names = models.list_models(module=models)
    if arch not in names:
        names += [*SMALL_NETS, *all_names("network")]
        raise UsageError(f"model.arch {arch}: unknown; {_suggest_network(arch, names)}")
    settings: dict[str, object] = {"weights": None, "num_classes": num_classes}
    settings |= _size_setting(arch, image_size)
    if arch in ("googlenet", "inception_v3"):  # with auxiliary classifiers they would not return one tensor
        settings |= {"aux_logits": False, "init_weights": True}
    try:
        model: nn.Module = models.get_model(arch, **settings)
    except (ValueError, AssertionError) as error:
        if is_built_for_one_size(arch):
            raise _size_error(arch, image_size, one_line(error)) from error
        raise UsageError(f"model.arch {arch}: {one_line(error)}") from error
    return model


def _suggest_network(arch: str, names: Sequence[str]) -> str:
    """End of a message about an unknown network: the network that may be meant, or how networks are named."""
    if has_package("timm"):
        import timm

        if timm.is_model(arch.partition(".")[0]):
            return f"did you mean {TIMM}{arch}?"
    close = difflib.get_close_matches(arch, names, n=1)
    if close:
        return f"did you mean {close[0]}, or {TIMM}{arch} of the package timm?"
    return (
        f"use a classifier of torchvision, such as resnet18, or {TIMM}NAME; if it is one of your own, give "
        f"its file with {PLUGINS}=FILE.py"
    )


def _size_setting(arch: str, image_size: int) -> dict[str, object]:
    """Torchvision's argument that builds a network for one size of picture; empty for any-size networks."""
    for prefix, argument in SIZE_ARGUMENTS.items():
        if arch.startswith(prefix):
            return {argument: (image_size, image_size) if argument == "input_size" else image_size}
    return {}


def is_built_for_one_size(arch: str) -> bool:
    """Tell whether the weights of a network of torchvision fit pictures of only one size."""
    return arch.startswith(tuple(SIZE_ARGUMENTS))


def _find_size_fault(model: nn.Module, image_size: int) -> str | None:
    """Run a network on shapes alone, and return its error for pictures of a size; None without an error.

    Leaves the network in training mode.
    """
    weights = {name: t.to("meta") for name, t in chain(model.named_parameters(), model.named_buffers())}
    picture = torch.empty(1, 3, image_size, image_size, device="meta")
    model.eval()  # batch norms cannot be trained on one picture
    try:
        with torch.no_grad():
            torch.func.functional_call(model, weights, (picture,))
    except (RuntimeError, ValueError, AssertionError) as error:
        return one_line(error)
    finally:
        model.train()
    return None


def _size_error(arch: str, image_size: int, fault: str) -> UsageError:
    """The error for a size of pictures, in pixels, that a network does not take for a reason."""
    return UsageError(
        f"data.image_size {image_size}: {arch} takes no pictures of this size ({fault.rstrip('.')}); set "
        f"another, such as data.image_size={USUAL_SIZE}"
    )


def _use_small_stem(model: nn.Module, arch: str) -> None:
    """Give a ResNet a first convolution of 3x3, stride 1, and no pooling, in place; UsageError for others."""
    from torchvision.models import ResNet

    if not isinstance(model, ResNet):
        raise UsageError(f"model.stem small: {arch} has no such stem; it is for ResNets")
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
