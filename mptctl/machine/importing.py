"""Tells whether modules are being imported: an exception then may be lost, or come out as another."""

from types import FrameType


def is_importing(frame: FrameType | None) -> bool:
    """Tell whether a frame is part of an import."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
