"""From checkpoints of ours to predictions on a part of a split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split, make_split
from mptctl.errors import CheckpointError, DataError, NonFiniteError
from mptctl.evaluation.evaluate import compare
from mptctl.inference.forward import forward
from mptctl.inference.named_models import NamedModels, load_predictions
from mptctl.inference.predict import make_test_picture_reader
from mptctl.models.checkpoint import CheckpointMeta, load_checkpoint, save_checkpoint
from mptctl.models.metrics_log import MetricsLine
from mptctl.models.networks import build_model
from mptctl.names import Progress, Session, tell_nobody
from mptctl.recipe import Recipe, load_recipe
from tests.common import CPU, make_folder


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return make_split("digits", run_root=tmp_path_factory.mktemp("runs"))


def save_run(
    split: Split,
    name: str,
    classes: tuple[str, ...],
    seed: int = 0,
    fingerprint: str | None = None,
    **recipe: str,
) -> torch.nn.Module:
    """A run folder with an untrained model of these classes."""
    settings = load_recipe("digits", [f"{key.replace('__', '.')}={value}" for key, value in recipe.items()])
    torch.manual_seed(seed)
    model = build_model(settings.model, len(classes), settings.data.image_size)
    save_weights(split, name, classes, model.state_dict(), settings, fingerprint)
    return model.eval()


def save_weights(
    split: Split,
    name: str,
    classes: tuple[str, ...],
    weights: dict[str, Tensor],
    recipe: Recipe | None = None,
    fingerprint: str | None = None,
) -> None:
    """A run folder with these weights."""
    meta = CheckpointMeta(
        recipe=recipe or load_recipe("digits"),
        class_names=classes,
        num_old=split.classes.num_old,
        split_fingerprint=fingerprint or split.fingerprint,
    )
    (split.run_root / name).mkdir(exist_ok=True)
    save_checkpoint(split.run_root / name / "best.pt", meta, weights)


def ask(names: list[str], run_root: Path, progress: Progress = tell_nobody) -> NamedModels:
    """The old model, the new one and a third one, on the test part."""
    roles = dict(zip(("old", "new", "baseline"), names, strict=False))
    return load_predictions(roles, Session(run_root, "cpu", progress), part="test")


def test_a_run_folder_answers_the_test_part(split: Split) -> None:
    model = save_run(split, "ref", split.classes.names)
    found = ask(["ref"], split.run_root)
    (predictions,) = found.models.values()
    rows = split.indices("test")
    assert predictions.ids.tolist() == split.ids(rows).tolist()
    assert predictions.labels.tolist() == [split.classes.names[i] for i in split.labels[rows]]
    assert (predictions.classes, predictions.origin, found.warnings) == (
        split.classes.names,
        "checkpoint",
        (),
    )
    # The first picture, normalised by hand.
    data = load_recipe("digits").data
    picture = torch.from_numpy(split.picture(int(rows[0]))).float().permute(2, 0, 1) / 255
    mean, std = (torch.tensor(v).reshape(3, 1, 1) for v in (data.mean, data.std))
    with torch.no_grad():
        expected = model(((picture - mean) / std)[None])[0].numpy()
    assert predictions.logits is not None
    np.testing.assert_allclose(predictions.logits[0], expected, atol=1e-4)


@pytest.mark.parametrize("how", ["name", "path", "link", "copy", "saved again"])
def test_one_model_under_two_names_is_recognised(split: Split, tmp_path: Path, how: str) -> None:
    save_run(split, "one", split.classes.names, seed=3)
    path = split.run_root / "one" / "best.pt"
    other = tmp_path / "other.pt"
    if how == "link":
        other.symlink_to(path)
    elif how == "copy":
        other.write_bytes(path.read_bytes())
    elif how == "saved again":
        known = load_checkpoint(path)
        meta = known.meta.model_copy(update={"origin": "imported", "split_fingerprint": None})
        save_checkpoint(other, meta, known.model)
    second = {"name": "one", "path": str(path)}.get(how, str(other))
    assert ask(["one", second], split.run_root).identical


def test_other_weights_class_names_or_views_are_other_models(split: Split, tmp_path: Path) -> None:
    save_run(split, "one", split.classes.names, seed=3)
    save_run(split, "two", split.classes.names, seed=4)
    known = load_checkpoint(split.run_root / "one" / "best.pt")
    turned, dark = tmp_path / "turned.pt", tmp_path / "dark.pt"
    save_checkpoint(
        turned, known.meta.model_copy(update={"class_names": known.meta.class_names[::-1]}), known.model
    )
    recipe = load_recipe("digits", ["data.mean=[0.9,0.9,0.9]"])
    save_checkpoint(dark, known.meta.model_copy(update={"recipe": recipe}), known.model)
    for other in ("two", str(turned), str(dark)):
        assert not ask(["one", other], split.run_root).identical
    # A third model that is the first one's twin says nothing of the second.
    assert not ask(["one", "two", "one"], split.run_root).identical


def test_an_unfinished_run_is_told_of_the_model_that_it_is(split: Split) -> None:
    save_run(split, "whole", split.classes.names)
    save_run(split, "killed", split.classes.names, seed=1)
    for name, last in (("whole", "done"), ("killed", "checkpoint")):
        lines = [MetricsLine(event="epoch", epoch=1, step=12), MetricsLine(event=last, epoch=2, step=24)]
        text = "".join(line.model_dump_json(exclude_none=True) + "\n" for line in lines)
        (split.run_root / name / "metrics.jsonl").write_text(text)
    found = ask(["whole", "killed", "whole"], split.run_root)
    (sentence,) = found.unfinished
    assert "killed/best.pt: its run is not finished (epoch 2 of" in sentence
    assert found.warnings == ()
    # A third model is not judged: a warning is enough.
    found = ask(["whole", "whole", "killed"], split.run_root)
    assert (found.unfinished, found.warnings) == ((), (sentence,))


def test_a_checkpoint_that_cannot_say_whether_its_run_was_finished(split: Split, tmp_path: Path) -> None:
    save_run(split, "one", split.classes.names)
    known = load_checkpoint(split.run_root / "one" / "best.pt")
    alone = tmp_path / "alone.pt"
    save_checkpoint(alone, known.meta.model_copy(update={"epoch": 3, "global_step": 36}), known.model)
    found = ask([str(alone), "one"], split.run_root)
    assert found.unfinished == ()
    assert len(found.warnings) == 1
    assert "alone.pt: saved after epoch 3 of" in found.warnings[0]


def test_another_order_of_classes_is_mapped_by_name(split: Split) -> None:
    model = save_run(split, "old", split.classes.old)
    (straight,) = ask(["old"], split.run_root).models.values()
    order = [2, 0, 1, 4, 3]
    state = model.state_dict()
    head = [key for key, value in state.items() if value.shape[:1] == (5,)]
    assert len(head) == 2
    turned = {key: value[order] if key in head else value for key, value in state.items()}
    save_weights(split, "turned", tuple(split.classes.old[i] for i in order), turned)
    (mixed,) = ask(["turned"], split.run_root).models.values()
    assert mixed.preds.tolist() == straight.preds.tolist()
    assert compare(straight, mixed).churn == 0


def test_classes_that_the_split_does_not_know_are_named(split: Split) -> None:
    save_run(split, "foreign", ("0", "1", "emu", "fox", "gnu", "hen"))
    with pytest.raises(
        CheckpointError, match=r"knows 4 classes that the split does not \(emu, fox, gnu and 1 more\)"
    ):
        ask(["foreign"], split.run_root)


@pytest.mark.parametrize("case", ["more", "fewer"])
def test_an_old_model_of_other_old_classes_is_refused(split: Split, case: str) -> None:
    old, new = split.classes.old, split.classes.new
    save_run(split, "ref", split.classes.names)
    names = (*old, new[0]) if case == "more" else old[1:]
    said = f"knows beside the split {new[0]}" if case == "more" else f"does not know {old[0]}"
    save_run(split, "foreign", names, fingerprint="0" * 32)
    save_run(split, "ours", names)
    with pytest.raises(DataError, match=rf"{said}.*of the split 000000000000, .* {split.fingerprint[:12]}"):
        ask(["foreign", "ref"], split.run_root)
    with pytest.raises(CheckpointError, match=said):
        ask(["ours", "ref"], split.run_root)
    (warning,) = ask(["ref", "foreign"], split.run_root).warnings
    assert "another split" in warning


def test_models_that_see_pictures_differently_get_passes_of_their_own(split: Split) -> None:
    save_run(split, "small", split.classes.names)
    save_run(split, "large", split.classes.names, data__image_size="16")
    save_run(split, "flipless", split.classes.names, data__flip="true", data__padding="3")
    seen: list[tuple[str, int, int]] = []
    ask(["small", "large", "flipless"], split.run_root, lambda *step: seen.append(step))
    n = len(split.indices("test"))
    # Training's flip and padding mean nothing here: two passes for three models.
    assert seen[-1] == ("test pictures", 2 * n, 2 * n)
    assert ("decoding pictures", n, n) in seen


def test_weights_that_are_nan_name_their_file(split: Split) -> None:
    model = save_run(split, "broken", split.classes.names)
    state = {k: v.fill_(float("nan")) if v.is_floating_point() else v for k, v in model.state_dict().items()}
    save_weights(split, "broken", split.classes.names, state)
    with pytest.raises(NonFiniteError, match=r"broken/best\.pt: \d+ of \d+ rows"):
        ask(["broken"], split.run_root)


def test_run_folders_named_by_path_are_tested_on_their_own_split(split: Split, tmp_path: Path) -> None:
    save_run(split, "ref", split.classes.names)
    make_split("digits", run_root=tmp_path, seed=5)
    found = ask([str(split.run_root / "ref")], tmp_path)
    assert found.split is not None
    assert found.split.fingerprint == split.fingerprint
    assert found.warnings == ()


def test_asked_for_the_validation_part_no_test_picture_is_read(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", size=16)
    split = make_split("imagefolder", run_root=tmp_path / "runs", data_root=folder, val_fraction=0.2)
    save_run(split, "old", split.classes.names)
    for row in split.indices("test"):
        Path(split.manifest.file(int(row))).unlink()
    session = Session(split.run_root, "cpu")
    found = load_predictions({"old": "old"}, session, part="val").models["old"]
    assert found.ids.tolist() == split.ids(split.indices("val")).tolist()
    # The test would pass where nothing is read at all: the same question for the test part fails.
    with pytest.raises(DataError):
        load_predictions({"old": "old"}, session, part="test")


def test_autocast_computes_in_fewer_bits_and_answers_in_float32(split: Split) -> None:
    recipe = load_recipe("digits")
    model = build_model(recipe.model, 10, recipe.data.image_size)
    plan = LoadPlan(split, recipe.data, "test", batch_size=50, seed=0, train=False, device=CPU)
    loader = make_loader(plan)
    (_, (full,)), *_ = forward([model], loader)
    (_, (reduced,)), *_ = forward([model], loader, "bf16")
    loader.close()
    assert reduced.dtype == torch.float32
    assert not torch.equal(full, reduced)
    assert torch.equal(reduced, reduced.bfloat16().float())


def test_a_sample_that_the_split_does_not_have_has_no_picture(split: Split) -> None:
    assert make_test_picture_reader(split)("nowhere") is None
