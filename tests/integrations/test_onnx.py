"""ONNX models from elsewhere: taken in, asked as teachers, never trained; their data lie in their own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mptctl.data.split import make_split
from mptctl.errors import CheckpointError, UsageError
from mptctl.models.checkpoint import load_checkpoint, load_model
from mptctl.models.networks import build_model
from mptctl.models.onnx_program import OnnxProgram, read_onnx
from mptctl.models.programs import load_program
from mptctl.recipe import ModelRecipe
from tests.common import CommandLine, Train, short_recipe

onnx = pytest.importorskip("onnx", reason="onnx is not installed (make test-integrations)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (make test-integrations)")

CLASSES = 5


def linear_model(batch: str | int = "batch") -> tuple[Any, np.ndarray[Any, Any]]:
    """One linear layer over 8 x 8 pictures, as ONNX, and its weights (192, 5)."""
    weight = np.random.default_rng(3).normal(size=(192, CLASSES)).astype(np.float32)
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["pictures"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weight"], ["out"]),
        ],
        "linear",
        [helper.make_tensor_value_info("pictures", onnx.TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, [batch, CLASSES])],
        [onnx.numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model, weight


@pytest.fixture
def foreign(tmp_path: Path) -> tuple[Path, Path]:
    """A model of somebody who knows nothing of mptctl, and the names of its classes."""
    onnx.save(linear_model()[0], str(tmp_path / "production.onnx"))
    (tmp_path / "classes.txt").write_text("0\n1\n2\n3\n4\n")
    return tmp_path / "production.onnx", tmp_path / "classes.txt"


@pytest.mark.parametrize("batch", ["batch", 1, 4])
def test_it_answers_as_numpy_does_for_any_number_of_pictures(batch: str | int) -> None:
    model, weight = linear_model(batch)
    network = OnnxProgram(model.SerializeToString(), None, "x.onnx")
    images = torch.randn(7, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    wanted = images.reshape(7, -1).numpy() @ weight
    np.testing.assert_allclose(network(images).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_it_serves_as_old_model_and_teacher_and_is_not_trained(
    mptctl: CommandLine, foreign: tuple[Path, Path], tmp_path: Path, run: Train
) -> None:
    model, classes = foreign
    root = tmp_path / "runs"
    out = mptctl("evaluate", model, model, "--run-root", root)
    assert out.returncode == 5
    assert "--class-names FILE" in out.stderr
    out = mptctl("import", model, "--class-names", classes, "--run-root", root, "--set", "runtime.device=cpu")
    assert (out.returncode, out.stdout) == (0, f"{root / 'old' / 'best.pt'}\n"), out.stderr
    old = load_checkpoint(root / "old" / "best.pt")
    images = torch.randn(3, 3, 8, 8)
    wanted = images.reshape(3, -1).numpy() @ linear_model()[1]
    np.testing.assert_allclose(load_model(old)(images).numpy(), wanted, rtol=1e-4, atol=1e-4)
    out = mptctl.must("split", "digits", "--run-root", root)
    out = mptctl.must("train-baseline", "pct-kl", "--run-root", root, "--dry-run", "--json")
    assert json.loads(out.stdout)["estimate"]["seconds"] > 0
    run(short_recipe("optim.epochs=1", method="pct-naive"), "new", old=old.path)
    assert load_checkpoint(root / "new" / "best.pt").meta.teachers == {"old": old.digest}
    out = mptctl("evaluate", "old", "new", "--run-root", root, "--json")
    assert json.loads(out.stdout)["n_old"] > 0
    with pytest.raises(UsageError, match="is asked and never trained"):
        build_model(ModelRecipe.model_validate({"arch": "onnx"}), CLASSES, 8)
    out = mptctl("adjust", "old", "--temperature", "--run-root", root)
    assert out.returncode == 2
    out = mptctl("export", "old", "--format", "onnx", "--run-root", root)
    assert out.returncode == 2
    assert "is a program already" in out.stderr


def test_one_that_takes_bgr_answers_to_rgb_as_it_would_to_bgr(
    mptctl: CommandLine, foreign: tuple[Path, Path], tmp_path: Path
) -> None:
    model, classes = foreign
    flags = ("--run-root", tmp_path, "--recipe", "digits", "--channels", "bgr")
    mptctl.must("import", model, "--class-names", classes, *flags)
    images = torch.randn(3, 3, 8, 8)
    wanted = images.flip(1).reshape(3, -1).numpy() @ linear_model()[1]
    found = load_model(load_checkpoint(tmp_path / "old" / "best.pt"))(images)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "give --class-names FILE"),
        (("--class-names", "classes.txt", "--set", "data.image_size=16"), 5, "cannot compute pictures of (3, 16, 16)"),
        (("--class-names", "two.txt"), 5, "answers 5 classes, --class-names names 2"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("foreign")
def test_other_classes_and_other_pictures_are_said(
    words: tuple[str, ...],
    code: int,
    said: str,
    mptctl: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.txt").write_text("0\n1\n")
    make_split("digits", run_root=Path("runs"))
    out = mptctl("import", "production.onnx", *words)
    assert (out.returncode, out.stdout) == (code, "")
    assert said in out.stderr


def test_a_softmax_at_the_end_is_refused_and_logits_that_are_positive_are_taken(
    mptctl: CommandLine, foreign: tuple[Path, Path], tmp_path: Path
) -> None:
    words = ("--class-names", foreign[1], "--run-root", tmp_path, "--recipe", "digits", "--overwrite")
    for kind, code in (("Softmax", 5), ("Sigmoid", 0)):
        model, _ = linear_model()
        model.graph.node[-1].output[0] = "logits"
        model.graph.node.append(onnx.helper.make_node(kind, ["logits"], ["out"]))
        onnx.save(model, str(foreign[0]))
        out = mptctl("import", foreign[0], *words)
        assert out.returncode == code, out.stderr
        assert ("export it without its softmax" in out.stderr) is (code == 5)


@pytest.mark.parametrize("way", ["../secret.bin", "OUTSIDE/secret.bin", "link.bin", "inner/secret.bin"])
def test_external_data_may_not_lead_out_of_the_folder(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    model, weight = linear_model()
    (tmp_path / "secret.bin").write_bytes(weight.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "inner").symlink_to(tmp_path)
    save_with_data(model, folder / "x.onnx")
    # As it is, data beside the file are read, and become part of the program.
    state, _ = read_onnx(folder / "x.onnx")
    images = torch.randn(2, 3, 8, 8)
    wanted = images.reshape(2, -1).numpy() @ weight
    np.testing.assert_allclose(load_program(state, "x")(images).numpy(), wanted, atol=1e-4)
    proto = onnx.load(str(folder / "x.onnx"), load_external_data=False)
    (entry,) = (each for each in proto.graph.initializer[0].external_data if each.key == "location")
    entry.value = way.replace("OUTSIDE", str(tmp_path))
    (folder / "x.onnx").write_bytes(proto.SerializeToString())
    said = r"outside the directory|absolute path|symbolic link|outside model directory"
    with pytest.raises(CheckpointError, match=said):
        read_onnx(folder / "x.onnx")


def save_with_data(model: Any, path: Path) -> None:
    """Save a model whose weights lie beside it, in w.bin."""
    onnx.save_model(model, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"PK\x03\x04", bytes(100)])
def test_what_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(CheckpointError, match="not an ONNX model"):
        read_onnx(tmp_path / "x.onnx")
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_onnx(tmp_path / "nowhere.onnx")


def test_data_that_are_missing_or_cut_are_named(tmp_path: Path) -> None:
    save_with_data(linear_model()[0], tmp_path / "x.onnx")
    (tmp_path / "w.bin").write_bytes((tmp_path / "w.bin").read_bytes()[:100])
    with pytest.raises(CheckpointError, match="exceeds available data \\(100 bytes"):
        read_onnx(tmp_path / "x.onnx")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(CheckpointError, match=r"w\.bin, but it is not regular file"):
        read_onnx(tmp_path / "x.onnx")
