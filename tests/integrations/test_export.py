"""`mptctl export`: what is written answers as the checkpoint, says what it is, and is refused once it is changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch

from mptctl.data.pictures import resize_and_crop
from mptctl.data.split import load_split
from mptctl.errors import CheckpointError
from mptctl.inference.loaded import load_run
from mptctl.models.checkpoint import load_checkpoint, load_model, save_checkpoint
from mptctl.models.export_meta import ExportMeta, sidecar_path
from mptctl.models.networks import SMALL_NETS, build_model
from mptctl.names import ExportFormat, Session
from mptctl.recipe import change_recipe
from tests.common import CommandLine
from tests.integrations.exports import exported, exported_copy, need

FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


@pytest.mark.parametrize("format_", FORMATS)
def test_an_export_answers_as_its_checkpoint(
    format_: str, trained: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    need(format_)
    file = tmp_path / f"model.{format_}"
    flags = ("--format", format_, "--out", file, "--run-root", trained)
    out = mptctl.must("export", "new", *flags, "--json")
    report = json.loads(out.stdout)
    split = load_split(trained)
    assert (report["format"], report["pictures"]) == (format_, len(split.indices("val")))
    assert report["max_difference"] <= 1e-4
    assert (report["answers_differ"], report["negative_flips"]) == (0, 0)
    meta = ExportMeta.model_validate_json(sidecar_path(file).read_bytes())
    checkpoint = load_checkpoint(trained / "new" / "best.pt")
    assert meta.class_names == checkpoint.meta.class_names
    assert meta.split_fingerprint == split.fingerprint
    # Any number of pictures, and what reads the file by itself says the same of it.
    again, model = load_checkpoint(file), load_model(load_checkpoint(file)).eval()
    assert again.meta.class_names == meta.class_names
    assert (again.meta.recipe.data.mean, again.meta.recipe.data.image_size) == (meta.preprocessing.mean, 8)
    images = torch.randn(7, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = load_model(checkpoint).eval()(images)
        for count in (1, 7):
            torch.testing.assert_close(model(images[:count]), wanted[:count], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format_", FORMATS)
def test_evaluate_takes_an_export(format_: str, trained: Path, tmp_path: Path, mptctl: CommandLine) -> None:
    file, reports = exported_copy(trained, format_, tmp_path), []
    for old, new, code in (("old", "new", 0), ("old", file, 0), (file, file, 3)):
        out = mptctl("evaluate", old, new, "--run-root", trained, "--json", "--max-nfr", "99")
        assert out.returncode == code, out.stderr
        reports.append(json.loads(out.stdout))
    assert reports[0]["counts"] == reports[1]["counts"]
    assert reports[0]["n"] == reports[1]["n"] > 0
    assert reports[2]["identical"]


@pytest.mark.parametrize("arch", sorted(SMALL_NETS.keys() - {"digits-net"}))
@pytest.mark.parametrize("format_", FORMATS)
def test_every_small_network_can_be_exported(format_: str, arch: str, trained: Path, tmp_path: Path) -> None:
    need(format_)
    root = Path(shutil.copytree(trained, tmp_path / "runs"))
    old, size = load_checkpoint(root / "new" / "best.pt"), 16
    keys = {"model.arch": arch, "data.image_size": size, "data.eval_resize": size + 2}
    recipe = change_recipe(old.meta.recipe, keys, "new")
    torch.manual_seed(5)
    model = build_model(recipe.model, len(old.meta.class_names), size)
    meta = old.meta.model_copy(update={"recipe": recipe})
    save_checkpoint(root / "new" / "best.pt", meta, model.state_dict())
    report = exported(root, format_, tmp_path / f"x.{format_}")
    assert report.max_difference < 1e-4
    said = ExportMeta.model_validate_json(sidecar_path(Path(report.file)).read_bytes())
    assert said.preprocessing.resize == size + 2


def test_preprocessing_goes_into_the_graph(trained: Path, tmp_path: Path) -> None:
    report = exported(trained, "onnx", tmp_path / "x.onnx", with_preprocessing=True)
    assert report.max_difference <= 1e-4
    import onnxruntime

    session = onnxruntime.InferenceSession(report.file, providers=["CPUExecutionProvider"])
    assert [(each.type, each.shape[1:]) for each in session.get_inputs()] == [("tensor(uint8)", [8, 8, 3])]
    split = load_split(trained)
    rows = split.indices("val")[:5]
    pictures = [resize_and_crop(torch.from_numpy(split.picture(int(row))), 8, 8).numpy() for row in rows]
    (logits,) = session.run(None, {"images": np.stack(pictures)})
    run = load_run("new", Session(trained, "cpu"))
    wanted = run.predict([split.picture(int(row)) for row in rows]).logits
    np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-4)


def test_a_tolerance_is_kept(trained: Path, tmp_path: Path, mptctl: CommandLine) -> None:
    file = exported_copy(trained, "onnx", tmp_path)
    before = file.read_bytes()
    flags = ("--out", file, "--tolerance", "1e-9", "--run-root", trained)
    out = mptctl("export", "new", "--format", "onnx", *flags)
    assert (out.returncode, out.stdout) == (3, "")
    assert "logits differ by up to" in out.stderr
    assert file.read_bytes() == before
    assert sidecar_path(file).is_file()


@pytest.mark.parametrize("format_", FORMATS)
def test_a_changed_export_is_refused(
    format_: str, trained: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    file = exported_copy(trained, format_, tmp_path)
    content = bytearray(file.read_bytes())
    weight = load_checkpoint(trained / "new" / "best.pt").model["fc.bias"].numpy().tobytes()
    place = bytes(content).find(weight)
    assert place > 0
    content[place + 2] ^= 1
    file.write_bytes(content)
    out = mptctl("evaluate", "old", file, "--run-root", trained)
    assert (out.returncode, out.stdout) == (5, "")
    assert str(file) in out.stderr
    with pytest.raises(CheckpointError):
        load_checkpoint(file)


def test_a_quantized_export_is_imported_and_compared_with_its_run(
    trained: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    file = exported_copy(trained, "onnx", tmp_path)
    import onnx

    proto = onnx.load(str(file))
    for tensor in proto.graph.initializer:  # as a tool that keeps the description rounds weights
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = onnx.numpy_helper.to_array(tensor)
            step = max(abs(values).max() / 127, 1e-9)
            rounded = ((values / step).round() * step).astype("float32")
            tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
    small = tmp_path / "int8.onnx"
    onnx.save(proto, str(small))
    root = tmp_path / "runs"
    shutil.copytree(trained, root)
    words = ("import", small, "--name", "int8", "--run-root", root)
    refused = mptctl(*words)
    assert refused.returncode == 5
    assert "import it with --class-names" in refused.stderr
    names = tmp_path / "classes.txt"
    names.write_text("\n".join(load_checkpoint(root / "new" / "best.pt").meta.class_names))
    taken = mptctl.must(*words, "--class-names", names)
    assert "was changed since it was exported" in taken.stderr
    compared = mptctl.must("evaluate", "new", "int8", "--run-root", root, "--max-nfr", "50", "--json")
    assert json.loads(compared.stdout)["n_old"] > 0


def test_what_is_not_installed_is_named(
    trained: Path, tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mptctl.machine.facts as facts

    monkeypatch.setattr(facts, "has_package", lambda module: not module.startswith("onnx"))
    (tmp_path / "x.onnx").write_bytes(b"anything")
    for words in (("export", "new", "--format", "onnx"), ("evaluate", "old", tmp_path / "x.onnx")):
        out = mptctl(*words, "--run-root", trained)
        assert (out.returncode, out.stdout) == (2, "")
        assert "pip install 'mptctl[export]'" in out.stderr
