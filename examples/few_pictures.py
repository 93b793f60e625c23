"""Write a few training pictures of each new class of a split to DIR/CLASS, as `mptctl fewshot --add DIR` takes them.

python examples/few_pictures.py RUN_ROOT DIR [--count 5]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image

from mptctl.data.split import load_split


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run_root", type=Path, help="folder of the split")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--count", type=int, default=5, help="pictures a class (default: 5)")
    args = parser.parse_args()
    split = load_split(args.run_root)
    rows = split.indices("train")
    labels = split.labels[rows]
    for label, name in list(enumerate(split.classes.names))[split.classes.num_old :]:
        folder = args.out / name
        folder.mkdir(parents=True)
        for row in rows[labels == label][: args.count]:
            Image.fromarray(split.picture(int(row))).save(folder / f"{row}.png")


if __name__ == "__main__":
    main()
