"""Memory of a step from sizes: every part of it counted by hand."""

from __future__ import annotations

from mptctl.recipe import load_recipe
from mptctl.training.estimate import step_bytes


def test_weights_gradients_and_state_are_counted_and_a_batch_twice_as_large_keeps_twice_as_much() -> None:
    few, many = (load_recipe("digits", [f"optim.batch_size={size}"]) for size in (64, 128))
    without, with_state = step_bytes(few, 10, [], 0), step_bytes(few, 10, [], 1)
    trained = 78_042 * 4  # weights of the network with ten classes, as --dry-run counts them, of four bytes
    assert with_state - without == trained
    assert step_bytes(few, 10, [(few, 10)], 0) - without >= trained
    kept = step_bytes(many, 10, [], 0) - without
    assert 0.9 < kept / (without - 2 * trained) < 1.1
