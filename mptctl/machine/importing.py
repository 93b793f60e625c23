"""Tells whether a module is being imported, when an exception might be lost or replaced by another."""

from types import FrameType


def is_importing(frame: FrameType | None) -> bool:
    """Tell whether a frame, or one of its callers, is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
