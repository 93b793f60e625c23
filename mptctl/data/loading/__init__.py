"""Loaders: pictures to batches, by whichever way is fastest for their size, device and format."""
