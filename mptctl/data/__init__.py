"""Pictures: sources, splits, augmentation, loading and packing."""
