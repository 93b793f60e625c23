"""A bias taken off the new classes' logits after training: what it buys, and which one meets a budget."""
