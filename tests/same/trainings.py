"""Ten steps of every method and of other settings, resumed ones, their caches of teachers, and a small ensemble."""

from __future__ import annotations

import json
from typing import Any

import torch

import mptctl
from mptctl.names import METHOD_NAMES
from mptctl.training import metrics_logger
from tests.same.command import HERE, Commands, digest

SHORT = ("--set", "optim.max_steps=10", "--set", "optim.batch_size=64", *HERE)
# Flags of `train-mpt`; every other method is one of `train-baseline`.
MPT = {"mpt-kl": ("--distance", "kl"), "mpt-lm": ("--distance", "lm")}
# Settings that reach other branches of the loop than the presets do, with MPT-KL unless --distance says otherwise.
SETTINGS: dict[str, tuple[str, ...]] = {
    "adamw": ("optim.name=adamw", "optim.lr=0.01", "optim.warmup_epochs=0.5", "optim.clip_grad_norm=1"),
    "average": ("optim.ema=0.9", "optim.schedule=step", "optim.step_epochs=1"),
    "accumulate": ("optim.accumulate=2", "optim.nesterov=true", "optim.no_decay=true"),
    "mixed": ("data.mixup=0.4", "data.flip=true", "method.k_schedule=linear-from-zero"),
    "drawn": ("data.transforms=[{name: trivial-augment}, {name: random-erasing, p: 0.5}]",),
    "gated": ("method.gate=student-wrong", "method.tau_squared=true", "method.lm_reduction=sum"),
    "from old": ("method.init=old", "runtime.channels_last=false"),
    "cosine head": ("model.head=cosine", "model.head_margin=0.1", "model.embedding_dim=8"),
    "dropblock": ("model.arch=resnet18", "model.dropblock=0.1", "optim.batch_size=16"),
    "balanced": ("data.sampling=balanced",),
    "weighted": ("criterion.class_weights=effective", "criterion.name=fl"),
    "bf16": ("runtime.precision=bf16", "runtime.teacher_precision=bf16"),
}
CRITERIA = ("ls", "fl", "flsd", "ecp", "mbls")


def write_trainings(commands: Commands) -> dict[str, Any]:
    """Train every method for ten steps; return its printed JSON, the losses of each, and a digest of each tensor."""
    metrics_logger.PROGRESS_SECONDS = 0.0  # a line a step, however slow the machine is
    commands.must("split", "digits", "--val-fraction", "0.2")
    found: dict[str, Any] = {}

    def train(name: str, *words: str) -> None:
        result = commands.run(words[0], *SHORT, *words[1:], "--name", name, "--json")
        found[name] = {"printed": result, **(_of_run(commands, name) if not result["code"] else {})}

    train("old", "train-old")
    train("ref", "train-ref", "--seed", "1")
    found["ensemble"] = commands.run("train-ensemble", "--size", "2", "--seed", "5", *SHORT, "--json")
    start = ("--set", "method.elodi_start_epoch=0")
    for method in METHOD_NAMES:
        reference = ("--ref", "ensemble") if method.startswith("elodi") else ()
        verb = ("train-mpt", *MPT[method]) if method in MPT else ("train-baseline", method)
        train(method, *verb, *reference, *start)
    for name, keys in SETTINGS.items():
        overrides = [word for key in keys for word in ("--set", key)]
        distance = "lm" if "method.lm_reduction=sum" in keys else "kl"
        train(name, "train-mpt", "--distance", distance, *overrides)
    for criterion in CRITERIA:
        train(criterion, "train-baseline", "no-treatment", "--set", f"criterion.name={criterion}")
    five_epochs = ("--set", "optim.batch_size=256")  # k moves in the third quarter of the epochs
    train("budget", "train-mpt", "--max-nfr", "45", *five_epochs)
    return found


def write_resumed(commands: Commands) -> dict[str, Any]:
    """Make a run longer that was stopped by its length, within an epoch and at its end; and what is refused."""
    constant = ("--set", "optim.schedule=step", "--set", "optim.epochs=3", *SHORT[2:])
    found: dict[str, Any] = {}
    for name, steps in (("within", 4), ("end", 11)):
        commands.must("train-mpt", "--name", name, *constant, "--set", f"optim.max_steps={steps}")
        longer = ("--set", "optim.max_steps=18", *constant)
        found[name] = commands.run("train-mpt", "--name", name, "--resume", *longer, "--json")
        found[f"{name}: run"] = _of_run(commands, name)
    found["other seed"] = commands.run("train-mpt", "--name", "end", "--resume", "--seed", "9", *constant)
    found["there already"] = commands.run("train-mpt", "--name", "end", *constant)
    return found


def write_caches(commands: Commands) -> dict[str, Any]:
    """Train with cached teachers, twice; return names, questions and contents of the cache's folders."""
    cached = ("--cache-teachers", *SHORT)
    found: dict[str, Any] = {
        "first": commands.must("train-mpt", "--name", "cached", *cached, "--json")["out"]
    }
    again = ("train-baseline", "pct-lm", "--name", "again")
    found["second"] = commands.must(*again, "--set", "runtime.cache_precision=fp32", *cached, "--json")["out"]
    found |= {name: _of_run(commands, name) for name in ("cached", "again")}
    for folder in sorted((commands.folder / "runs/cache/teachers").iterdir()):
        if folder.is_dir():
            question = json.loads((folder / "question.json").read_text(encoding="utf-8"))
            contents = {path.name: digest(path.read_bytes()) for path in sorted(folder.glob("*.bin"))}
            found[folder.name] = {"question": commands.cleaned(question), **contents}
    return found


def _of_run(commands: Commands, name: str) -> dict[str, Any]:
    """Losses of a run, and shape, norm and digest of each tensor of its last and its best checkpoint."""
    folder = commands.folder / "runs" / name
    tensors = {
        file: {key: _summary(tensor) for key, tensor in _weights(folder / file).items()}
        for file in ("last.pt", "best.pt")
    }
    return {"metrics": commands.json_lines(f"runs/{name}/metrics.jsonl"), **tensors}


def _weights(path: Any) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = mptctl.load(path).model.state_dict()
    return weights


def _summary(tensor: torch.Tensor) -> str:
    norm = tensor.double().norm().item()
    return f"{list(tensor.shape)} norm {norm:.9g} {digest(tensor.contiguous().numpy().tobytes())}"
