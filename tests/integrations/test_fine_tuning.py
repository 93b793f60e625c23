"""A network saved by timm, from the command line: imported, fine-tuned, killed, gone on, exported and gated."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from mptctl.data.split import load_split, make_split
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from tests.common import CommandLine, command, environment

timm = pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")
pytest.importorskip("safetensors", reason="safetensors is not installed (make test-integrations)")

RECIPE = """
data: {image_size: 32, eval_resize: 32, augment: none}
model:
  arch: timm:convnext_atto
  pretrained: WEIGHTS
  freeze: [stem]
  drop_path: 0.1
optim: {name: adamw, lr: 1.0e-3, layer_decay: 0.75, no_decay: true, epochs: 2, head_lr: 0.002, ema: 0.9}
runtime: {device: cpu, threads: 1, checkpoint_every_steps: 5}
"""


def kill_at(step: int, words: list[str], folder: RunDir) -> None:
    """Start a command line, and kill it once its run has saved a step."""
    process = subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not any(line.event == "checkpoint" and line.step >= step for line in read_metrics(folder.metrics)):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_a_convnext_of_timm_is_fine_tuned_killed_gone_on_with_exported_and_gated(
    mptctl: CommandLine, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    make_split("digits", run_root=root)
    torch.manual_seed(3)
    weights, names, recipe = tmp_path / "weights.pth", tmp_path / "known.txt", tmp_path / "mine.yaml"
    model = timm.create_model("convnext_atto", num_classes=5)
    torch.save(model.state_dict(), weights)
    names.write_text("\n".join(load_split(root).classes.names[:5]))
    recipe.write_text(RECIPE.replace("WEIGHTS", str(weights)))
    flags = ("--run-root", str(root))
    sized = [f"--set={key}" for key in ("data.image_size=32", "runtime.device=cpu")]
    out = mptctl.must(
        "import", weights, "--arch", "timm:convnext_atto", "--class-names", names, *flags, *sized
    )
    train = ("train-baseline", "no-treatment", *flags, "--recipe", str(recipe), "--seed", "4")
    kill_at(15, command(*train, "--name", "killed"), RunDir(root / "killed"))
    for words in (("--name", "killed", "--resume"), ("--name", "alone")):
        out = mptctl.must(*train, *words)
    killed, alone = (load_checkpoint(root / name / "best.pt") for name in ("killed", "alone"))
    assert all(torch.equal(killed.model[key], alone.model[key]) for key in alone.model)
    pretrained = model.state_dict()
    kept = {key for key, tensor in pretrained.items() if torch.equal(tensor, alone.model[key][: len(tensor)])}
    assert kept == {key for key in pretrained if key.startswith("stem.")}
    exported = tmp_path / "new.safetensors"
    out = mptctl.must("export", "killed", "--format", "safetensors", "--out", exported, *flags)
    for limit, code in (("100", 0), ("0", 3)):
        out = mptctl("evaluate", "old", exported, "--max-nfr", limit, "--json", *flags)
        report = json.loads(out.stdout)
        assert (out.returncode, report["gate"]["passed"]) == (code, code == 0), out.stderr
    assert report["counts"]["negative_flips"] > 0
