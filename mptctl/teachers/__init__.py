"""Teachers: models whose logits a student learns from, computed or kept on disk."""
