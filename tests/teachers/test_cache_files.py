"""Files of teacher logits: where they lie, and how they are rounded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mpt_kernels.correct import is_top1_correct
from mptctl.teachers.cache_files import LogitFiles, round_logits


def test_folders_that_earlier_versions_wrote_are_found(tmp_path: Path) -> None:
    """The name of a folder and the bytes of its files, as the version before wrote them."""
    key = {"role": "old", "layout": 1, "teachers": ["a1"], "batch": [2, 1, 1]}
    files = LogitFiles(tmp_path, key, rows=2, width=3, dtype=np.dtype(np.float16))
    assert files.folder.name == "old-9c0957c49648510d"
    index, logits = np.array([4, 1]), np.arange(6, dtype=np.float16).reshape(2, 3)
    files.write(0, 0, index, logits)
    assert json.loads((files.folder / "question.json").read_text()) == key
    written = (files.folder / "epoch-0000.bin").read_bytes().hex()
    assert (
        written == "0de82ad602939afd8192009fadf505c8000000000000000000000000000000000000003c0040004200440045"
    )


def test_rounding_keeps_the_answer_counted_by_hand() -> None:
    # Between 4 and 8 half precision has steps of 1/256: 5 and 5 + 1/1024 round to the same number.
    logits = np.array(
        [
            [
                5.0,
                5.0 + 1 / 1024,
                1.0,
            ],  # the second is the answer; rounded it would tie, and the first would be
            [5.0, 5.0, 1.0],  # a true tie: the first is the answer
            [5.0 + 1 / 1024, 5.0, 1.0],
            [1e6, 2e6, -3e38],  # beyond half precision
        ],
        dtype=np.float32,
    )
    kept = round_logits(logits, np.dtype(np.float16))
    assert kept.dtype == np.float16
    assert kept.argmax(axis=1).tolist() == [1, 0, 0, 1]
    assert kept[0].tolist() == [5.0 - 1 / 256, 5.0, 1.0]
    assert kept[1].tolist() == [5.0, 5.0, 1.0]
    assert np.isfinite(kept).all()


@given(
    arrays(
        np.float32,
        (7, 4),
        elements=st.one_of(
            st.floats(-70000, 70000, width=32),
            st.floats(0.984375, 1.015625, width=32),
            st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-9, -1e-9]).map(np.float32),
        ),
    )
)
@example(np.array([[0, 0, 1.0069379, 1.0071871]] * 7, dtype=np.float32))  # both are nearest to 1.0068359
def test_rounding_keeps_every_answer_for_every_label(logits: np.ndarray) -> None:  # type: ignore[type-arg]
    kept = round_logits(logits, np.dtype(np.float16))
    before, after = torch.from_numpy(logits), torch.from_numpy(kept)
    for label in range(4):
        target = torch.full((7,), label)
        assert torch.equal(is_top1_correct(before, target), is_top1_correct(after, target))
    finite = np.isfinite(logits)
    assert np.isfinite(kept[finite]).all()
    # Half a step to the nearest number, and one more where that would tie with the answer.
    step = 1.5 * np.maximum(np.abs(np.clip(logits[finite], -65504, 65504)) * 2.0**-10, 2.0**-24) * 1.01
    far = np.abs(logits[finite]) > 65472
    assert (np.abs(kept[finite].astype(np.float32) - logits[finite])[~far] <= step[~far]).all()


def test_float32_is_kept_as_it_is() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    assert round_logits(logits, np.dtype(np.float32)).tobytes() == logits.tobytes()
