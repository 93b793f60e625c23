"""Teachers: models from whose logits a student learns; logits are computed, or read from a cache on disk."""
