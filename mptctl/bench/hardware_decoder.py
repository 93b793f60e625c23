"""Asks nvJPEG what a GPU's hardware decoder of JPEGs has and takes, and NVML how busy it is."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from mptctl.errors import first_line
from mptctl.files import Model

# From nvjpeg.h: NVJPEG_BACKEND_HARDWARE, NVJPEG_OUTPUT_RGBI, NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION.
_HARDWARE, _RGB, _FANCY = 3, 5, 1 << 5


class HardwareDecoder(Model):
    """What nvJPEG says of a GPU's hardware decoder of JPEGs."""

    engines: int | None = Field(description="engines for JPEGs; null where not known")
    cores_per_engine: int | None = Field(description="JPEGs that an engine decodes at once; null: not known")
    asked: int = Field(description="pictures that nvJPEG was asked about")
    taken: dict[str, int] = Field(
        description="pictures of these that the hardware takes whole, and of which it takes the training "
        "crop, with fancy and with plain upsampling; a missing entry is not known"
    )
    problem: str | None = Field(None, description="why the rest is not known; null where all is known")

    def describe(self) -> str:
        """Describe the decoder in one line."""
        engines = "not known" if self.engines is None else f"{self.engines} of {self.cores_per_engine} cores"
        taken = ", ".join(f"{name} {count}" for name, count in self.taken.items()) or "not known"
        why = f" ({self.problem})" if self.problem else ""
        return (
            f"hardware decoder: engines {engines}; takes, of {self.asked} pictures asked about: {taken}{why}"
        )


class Region(NamedTuple):
    """A region of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


# As nvJPEG wants it for a picture as a whole.
WHOLE = Region(0, 0, -1, -1)


def ask_decoder(pictures: Sequence[tuple[bytes, Region]]) -> HardwareDecoder:
    """Ask nvJPEG about the current GPU's hardware decoder, as nvImageCodec asks it for DALI before decoding.

    Args:
        pictures: JPEG files, and the region of each that training decodes.

    Returns:
        What is known; never raises: what could not be asked is not known, with the reason.
    """
    engines, cores = c_uint(), c_uint()
    taken: dict[str, int] = {}
    problem = None
    try:
        library = ctypes.CDLL(_find_nvjpeg())
        for flags, upsampling in ((_FANCY, "fancy"), (0, "plain")):
            with _open_decoder(library, flags) as handle:
                _call(library, "nvjpegGetHardwareDecoderInfo", handle, byref(engines), byref(cores))
                whole = [(picture, WHOLE) for picture, _ in pictures]
                taken[f"whole with {upsampling} upsampling"] = _count_taken(library, handle, whole)
                taken[f"crops with {upsampling} upsampling"] = _count_taken(library, handle, pictures)
    except (OSError, AttributeError) as error:
        problem = first_line(error)
    return HardwareDecoder(
        engines=engines.value or None,
        cores_per_engine=cores.value or None,
        asked=len(pictures),
        taken=taken,
        problem=problem,
    )


def decoder_use() -> int | None:
    """Return how busy the first GPU's JPEG decoder was lately, in percent, by NVML; None where not known."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device, percent, period = c_void_p(), c_uint(), c_uint()
        _call(library, "nvmlInit_v2")
        _call(library, "nvmlDeviceGetHandleByIndex_v2", 0, byref(device))
        _call(library, "nvmlDeviceGetJpgUtilization", device, byref(percent), byref(period))
    except (OSError, AttributeError):
        return None
    return percent.value


def _find_nvjpeg() -> str:
    """Return the path of the nvJPEG that pip has installed, which DALI uses, or the system's name of it."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = sorted(file for folder in folders for file in Path(folder).glob("*/lib/libnvjpeg.so*"))
    return str(files[0]) if files else "libnvjpeg.so"


def _call(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Call a function of a library of NVIDIA's; raises OSError with its name where it returns a fault."""
    status = getattr(library, name)(*arguments)
    if status:
        raise OSError(f"{name} returned {status}")


@contextmanager
def _open_decoder(library: ctypes.CDLL, flags: int) -> Iterator[c_void_p]:
    """Open nvJPEG's hardware decoder; raises OSError where the GPU has none."""
    handle = c_void_p()
    _call(library, "nvjpegCreateEx", _HARDWARE, None, None, c_uint(flags), byref(handle))
    try:
        yield handle
    finally:
        _call(library, "nvjpegDestroy", handle)


def _count_taken(library: ctypes.CDLL, handle: c_void_p, pictures: Sequence[tuple[bytes, Region]]) -> int:
    """Count the pictures of which the decoder takes the region."""
    stream, settings, count = c_void_p(), c_void_p(), 0
    _call(library, "nvjpegJpegStreamCreate", handle, byref(stream))
    _call(library, "nvjpegDecodeParamsCreate", handle, byref(settings))
    _call(library, "nvjpegDecodeParamsSetOutputFormat", settings, _RGB)
    for picture, region in pictures:
        _call(
            library,
            "nvjpegDecodeParamsSetROI",
            settings,
            region.left,
            region.top,
            region.width,
            region.height,
        )
        size = c_size_t(len(picture))
        _call(library, "nvjpegJpegStreamParseHeader", handle, c_char_p(picture), size, stream)
        unsupported = c_int(-1)  # 0: the hardware takes it
        _call(library, "nvjpegDecodeBatchedSupportedEx", handle, stream, settings, byref(unsupported))
        count += unsupported.value == 0
    _call(library, "nvjpegDecodeParamsDestroy", settings)
    _call(library, "nvjpegJpegStreamDestroy", stream)
    return count
