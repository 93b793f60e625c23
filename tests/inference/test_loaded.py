"""A trained run from Python: what it is, the pictures as evaluation sees them, and its answers without labels."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from PIL import Image

import mptctl
from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import DataError, NonFiniteError, UsageError
from mptctl.evaluation.reading.predictions import read_predictions
from mptctl.inference.loaded import LoadedRun
from mptctl.inference.predict import predict
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint, save_checkpoint
from mptctl.models.networks import build_model
from mptctl.names import Session
from mptctl.recipe import load_recipe
from tests.common import CPU

CLASSES = ("class2", "class0", "class1", "class3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with an untrained model of four classes, in an order that is not the folders'."""
    root = tmp_path_factory.mktemp("runs")
    keys = ["data.image_size=32", "data.eval_resize=36", "data.mean=[0.5,0.4,0.3]", "optim.batch_size=5"]
    recipe = load_recipe("digits", [*keys, "data.threads=2"])
    torch.manual_seed(0)
    model = build_model(recipe.model, len(CLASSES), recipe.data.image_size)
    (root / "mine").mkdir()
    meta = CheckpointMeta(recipe=recipe, class_names=CLASSES, num_old=2)
    save_checkpoint(root / "mine" / "best.pt", meta, model.state_dict())
    return root


@pytest.fixture(scope="module")
def mine(runs: Path) -> LoadedRun:
    return mptctl.load("mine", run_root=runs)


def test_a_run_is_ready_to_infer(mine: LoadedRun, runs: Path) -> None:
    assert mine.class_names == CLASSES
    assert repr(mine).endswith("best.pt, digits-net, 4 classes, pictures of 32 x 32, on cpu>")
    assert mine.path == runs / "mine" / "best.pt"
    assert isinstance(mine.model, torch.nn.Module)
    assert not any(module.training for module in mine.model.modules())
    assert mine.recipe.data.image_size == 32
    by_path = mptctl.load(runs / "mine")
    assert all(map(torch.equal, by_path.model.state_dict().values(), mine.model.state_dict().values()))


def test_the_transform_by_hand(runs: Path, tmp_path: Path) -> None:
    """Centre of a picture that is as large as it is resized to: (level / 255 - mean) / std of each channel."""
    run = mptctl.load("mine", run_root=runs)
    picture = np.zeros((36, 36, 3), dtype=np.uint8)
    picture[2, 2] = (255, 51, 0)  # the first pixel of the crop
    found = run.transform(picture)
    assert found.shape == (3, 32, 32)
    assert found.dtype == torch.float32
    std = run.recipe.data.std
    assert found[:, 0, 0].tolist() == pytest.approx([0.5 / std[0], -0.2 / std[1], -0.3 / std[2]], abs=1e-6)
    assert found[:, 1, 1].tolist() == pytest.approx([-0.5 / std[0], -0.4 / std[1], -0.3 / std[2]], abs=1e-6)


@pytest.mark.parametrize("loader", ["threaded", "resident"])
def test_the_transform_has_the_bits_of_evaluation(
    mine: LoadedRun, split: Split, loader: str, tmp_path: Path
) -> None:
    data = mine.recipe.data.model_copy(update={"loader": loader})
    made = make_loader(LoadPlan(split, data, "test", 5, seed=0, train=False, device=CPU), tmp_path)
    seen = 0
    for batch in made.epoch(0):
        paths = [Path(split.manifest.file(i)) for i in batch.index.tolist()]
        ours = torch.stack([mine.transform(path) for path in paths])
        assert torch.equal(ours, batch.images)
        seen += len(paths)
    made.close()
    assert seen == 16


def test_pictures_of_every_kind_are_one_picture(mine: LoadedRun, folder: Path) -> None:
    path = folder / "val" / "class0" / "000.jpg"
    # As a PNG, so that one decoder is not held against another.
    image = Image.open(path).convert("RGB")
    array = np.asarray(image)
    grey = np.asarray(image.convert("L"))
    wanted = mine.transform(image)
    assert torch.equal(mine.transform(array), wanted)
    assert torch.equal(mine.transform(torch.from_numpy(array.copy())), wanted)
    assert torch.equal(mine.transform(str(path)), mine.transform(path))
    assert torch.equal(mine.transform(grey), mine.transform(image.convert("L")))


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((8, 8, 3)), "picture: an array of float64, shape (8, 8, 3)"),
        (np.zeros((3, 8, 8), dtype=np.uint8), "picture: an array of uint8, shape (3, 8, 8)"),
        (np.zeros((0, 8, 3), dtype=np.uint8), "picture: an array of uint8, shape (0, 8, 3)"),
        (Image.new("I;16", (8, 8)), "picture: 16 bits a channel or more; give one with 8"),
        (Image.new("F", (8, 8)), "picture: 16 bits a channel or more"),
        (None, "picture: nothing"),
        ("nowhere.jpg", "nowhere.jpg: cannot be read (No such file or directory)"),
        (__file__, "test_loaded.py: "),
    ],
)
def test_what_is_no_picture_is_refused_in_one_line(mine: LoadedRun, picture: object, message: str) -> None:
    with pytest.raises(DataError) as error:
        mine.transform(picture)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_answers_to_pictures(mine: LoadedRun, folder: Path) -> None:
    paths = sorted(folder.glob("val/*/*.jpg"))
    found = mine.predict(paths)
    assert found.ids.tolist() == [str(path) for path in paths]
    assert found.logits.shape == (16, 4)
    with torch.inference_mode():
        logits = mine.model(torch.stack([mine.transform(path) for path in paths])).numpy()
    np.testing.assert_allclose(found.logits, logits, rtol=0, atol=1e-5)
    softmax = np.exp(found.logits) / np.exp(found.logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found.confidences, softmax.max(1), rtol=1e-5)
    assert found.answers.tolist() == [CLASSES[i] for i in found.logits.argmax(1)]
    pictures = [paths[0], Image.open(paths[1]), np.asarray(Image.open(paths[2]))]
    mixed = mine.predict(pictures)
    assert mixed.ids.tolist() == [str(paths[0]), "1", "2"]
    assert mixed.answers.tolist() == found.answers[:3].tolist()
    with pytest.raises(DataError, match="no picture"):
        mine.predict([])


def test_a_folder_is_answered_as_evaluation_answers(mine: LoadedRun, split: Split) -> None:
    """To the last bit: the same pictures in the same batches."""
    evaluated = predict({"m": load_checkpoint(mine.path)}, split, Session(device="cpu"), part="test")["m"]
    pictures = Path(split.file.request.data_root or "") / "val"
    found = mine.predict_folder(pictures)
    assert [f"val/{name}" for name in found.ids] == evaluated.ids.tolist()
    assert evaluated.logits is not None
    assert np.array_equal(found.logits, evaluated.logits)
    assert found.answers.tolist() == evaluated.preds.tolist()
    assert not (pictures / "cache").exists()


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_answers_are_written_so_that_labels_can_be_added(
    mine: LoadedRun, folder: Path, tmp_path: Path, suffix: str
) -> None:
    found = mine.predict_folder(folder / "val")
    path = found.save(tmp_path / f"answers{suffix}")
    labels = [name.split("/")[0] for name in found.ids]
    if suffix == ".npz":
        np.savez(path, label=labels, **dict(np.load(path)))
    elif suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        pyarrow.parquet.write_table(table.append_column("label", [labels]), path)
    else:
        lines = path.read_text().splitlines()
        assert lines[0] == "id,pred,confidence"
        path.write_text("\n".join(map(",".join, zip(lines, ["label", *labels], strict=True))))
    read = read_predictions(path)
    assert read.ids.tolist() == found.ids.tolist()
    assert read.preds.tolist() == found.answers.tolist()
    if suffix != ".csv":
        assert read.classes == CLASSES
        assert read.logits is not None
        assert np.array_equal(read.logits, found.logits)


def test_answers_are_not_written_in_a_form_that_is_not_read(
    mine: LoadedRun, folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"answers\.txt: .*\.csv, \.npz, \.parquet"):
        mine.predict([folder / "val" / "class0" / "000.jpg"]).save(tmp_path / "answers.txt")


def test_a_file_that_only_decoding_shows_to_be_damaged(mine: LoadedRun, folder: Path, tmp_path: Path) -> None:
    root = shutil.copytree(folder / "val", tmp_path / "new")
    victim = root / "class1" / "002.jpg"
    content = victim.read_bytes()
    start = content.index(b"\xff\xda")
    # A scan that says it has another number of components than the picture.
    victim.write_bytes(content[: start + 4] + b"\x09" + content[start + 5 :])
    with pytest.raises(DataError, match=r"002\.jpg: .*verify"):
        mine.predict_folder(root)
    assert len(mine.predict_folder(root, on_bad="quarantine", verify="decode")) == 15


def test_a_link_in_a_circle_ends(mine: LoadedRun, folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "new"
    shutil.copytree(folder / "val" / "class0", root / "a")
    (root / "a" / "again").symlink_to(root)
    assert len(mine.predict_folder(root)) == 4


def test_logits_that_are_not_finite_are_refused(runs: Path, folder: Path) -> None:
    run = mptctl.load("mine", run_root=runs)
    with torch.no_grad():
        next(iter(run.model.parameters())).fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="4 of 4 rows"):
        run.predict_folder(folder / "val" / "class0")
