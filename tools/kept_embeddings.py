"""Keep the features of docs/embedding.png, so that the figure can be drawn without its models."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mptctl.files import write_atomically
from mptctl.inference.embedding import Embedding, compute_embeddings
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.names import Session

FEATURES = Path(__file__).parent.parent / "results" / "figure3-again" / "features.npz"
RUNS = ("old", "no-treatment", "pct-kl", "mpt-kl")
_ARRAYS = ("points", "labels", "weight", "bias", "columns")


def write_embeddings(embeddings: Mapping[str, Embedding], path: Path) -> None:
    """Write embeddings of one split as a compressed NumPy archive, features and classifiers in float32.

    Args:
        embeddings: at least one, by run name.
        path: the ``.npz`` file.
    """
    some = next(iter(embeddings.values()))
    arrays = {"class_names": np.array(some.class_names), "num_old": np.array(some.num_old)}
    for name, embedding in embeddings.items():
        arrays |= {f"{name}/{array}": getattr(embedding, array) for array in _ARRAYS}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def read_embeddings(path: Path) -> dict[str, Embedding]:
    """Read what `write_embeddings` wrote, by run name in the order of writing."""
    with np.load(path) as kept:
        names = list(dict.fromkeys(key.rpartition("/")[0] for key in kept.files if "/" in key))
        class_names, num_old = tuple(map(str, kept["class_names"])), int(kept["num_old"])
        return {
            name: Embedding(
                **{array: kept[f"{name}/{array}"] for array in _ARRAYS},
                class_names=class_names,
                num_old=num_old,
            )
            for name in names
        }


def words(embeddings: Mapping[str, Embedding]) -> str:
    """Describe the panels: number of pictures, errors, and a digest of each model's features and classifier."""
    panels = []
    for name, embedding in embeddings.items():
        errors = int((embedding.predict(embedding.points) != embedding.labels).sum())
        content = b"".join(np.ascontiguousarray(getattr(embedding, array)).tobytes() for array in _ARRAYS)
        digest = hashlib.sha256(content).hexdigest()[:12]
        panels.append(f"{name}: {errors:,} errors on {len(embedding.labels):,} pictures, features {digest}")
    return "; ".join(panels)


def main() -> None:
    """Keep the features of the runs in the folder that the command line names, by default ``runs/figure3/1``."""
    run_root = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/figure3/1")
    checkpoints, split = load_named_checkpoints(list(RUNS), Session(run_root))
    write_embeddings(compute_embeddings(checkpoints, split), FEATURES)


if __name__ == "__main__":
    main()
