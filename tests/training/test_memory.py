"""Memory of a step from sizes: every part of it counted by hand."""

from __future__ import annotations

from mptctl.recipe import load_recipe
from mptctl.training.estimate import step_bytes


def test_weights_gradients_and_state_are_counted_and_a_batch_twice_as_large_keeps_twice_as_much() -> None:
    few, many = (load_recipe("digits", [f"optim.batch_size={size}"]) for size in (64, 128))
    adam = load_recipe("digits", ["optim.batch_size=64", "optim.name=adamw"])
    of_sgd, of_adam = step_bytes(few, 10, []), step_bytes(adam, 10, [])
    trained = 78_042 * 4  # weights of the network with ten classes, as --dry-run counts them, of four bytes
    assert of_adam - of_sgd == trained  # two numbers a weight in place of one
    assert step_bytes(few, 10, [(few, 10)]) - of_sgd >= trained
    kept = step_bytes(many, 10, []) - of_sgd
    assert 0.9 < kept / (of_sgd - 3 * trained) < 1.1
