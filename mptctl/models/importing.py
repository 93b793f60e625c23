"""Importing: a state dict from elsewhere becomes a run folder that serves as old model or reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mptctl.data.classes import ClassSplit
from mptctl.data.split import SPLIT_NAME, load_split
from mptctl.errors import CheckpointError, UsageError
from mptctl.machine.device import choose_device
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import CheckpointMeta, read_state_dict, save_checkpoint
from mptctl.models.heads import find_head
from mptctl.models.networks import build_model
from mptctl.models.ownership import left_alone, refuse_own_inputs
from mptctl.models.run_folder import RunDir
from mptctl.recipe import DEFAULT_PRESET, load_recipe


def import_model(
    weights: Path,
    *,
    arch: str,
    class_names_file: Path,
    folder: Path,
    run_root: Path,
    recipe_name: str | None = None,
    overrides: Sequence[str] = (),
    overwrite: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Check a foreign model's weights against its architecture and class names, and write a run folder.

    Args:
        weights: file with a state dict.
        arch: architecture, by torchvision's name.
        class_names_file: one class name a line, in the order of the logits.
        folder: the run folder.
        run_root: where the split is, if there is one.
        recipe_name: whose ``data`` group says how the model sees pictures; default: the split's preset. Wanted where
            there is no split.
        overrides: of the recipe.
        overwrite: throw away the run that is in the folder; what no run wrote stays.
        say: called with what else the user should know.

    Returns:
        The checkpoint that was written.

    Raises:
        UsageError: the class names cannot be read, the folder holds a run and is not to be overwritten, it
            holds what is brought in, or there is neither split nor recipe.
        CheckpointError: the weights do not fit, or name classes that the split does not know.
    """
    refuse_own_inputs(folder, (weights, class_names_file))
    RunDir(folder).refuse_unusable(resume=False, overwrite=overwrite)
    split = load_split(run_root) if (run_root / SPLIT_NAME).exists() else None
    if split is not None:
        recipe_name = recipe_name or DEFAULT_PRESET[split.file.source]
    elif recipe_name is None:
        raise UsageError(
            f"no {SPLIT_NAME} in {run_root}: nothing says how the model sees pictures; name a recipe with --recipe, "
            "or run mptctl split SOURCE first"
        )
    names = _read_names(class_names_file)
    # Without a split all of its classes are old, as those of a model in production are.
    classes = split.classes if split is not None else ClassSplit(tuple(names), len(names))
    unknown = [name for name in names if name not in set(classes.names)]
    if unknown:
        raise CheckpointError(
            f"{class_names_file}: {', '.join(unknown[:3])}{f' and {len(unknown) - 3} more' if unknown[3:] else ''} "
            "not among the split's classes; use their names as split.json has them"
        )
    recipe = load_recipe(
        recipe_name,
        overrides,
        {"model.arch": arch, "model.pretrained": None, "method.name": "no-treatment"},
    )
    model = build_model(recipe.model, len(names), recipe.data.image_size)
    state = read_state_dict(weights)
    head, _ = find_head(model, arch)
    own = model.state_dict()
    rows = {len(v) for k, v in state.items() if k.startswith(head) and k.endswith("weight")}
    if rows and len(names) not in rows:
        raise CheckpointError(
            f"{weights}: answers {max(rows)} classes, {class_names_file} names {len(names)}; name them all, in order"
        )
    wrong = [k for k in own if k not in state or state[k].shape != own[k].shape]
    wrong += [k for k in state if k not in own]
    if wrong:
        raise CheckpointError(
            f"{weights}: does not fit --arch {arch}: {', '.join(wrong[:3])}"
            f"{f' and {len(wrong) - 3} more' if wrong[3:] else ''}; name the architecture that it was made with, "
            "and model.stem or model.embedding_dim with --set"
        )
    model.load_state_dict(state)
    meta = CheckpointMeta(
        origin="imported",
        recipe=recipe,
        class_names=tuple(names),
        num_old=sum(name in set(classes.old) for name in names),
        split_fingerprint=None,
        versions=versions(),
        git_commit=git_commit(),
    )
    run = RunDir(folder)
    with run.locked(resume=False, overwrite=overwrite):
        if overwrite:
            for note in left_alone(run.empty()):
                say(f"{folder}: {note}")
        split_json = split.file.model_dump_json(indent=2) if split else None
        run.write_start(recipe.to_yaml(), split_json, choose_device("cpu"))
        save_checkpoint(run.best, meta, model.state_dict())
    return run.best


def _read_names(path: Path) -> list[str]:
    try:
        lines = path.expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--class-names {path}: cannot be read: {error}; write one class name a line"
        ) from error
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise UsageError(f"--class-names {path}: names no class; write one class name a line")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"--class-names {path}: {', '.join(twice[:3])} stands there twice; every class has one line"
        )
    return names
