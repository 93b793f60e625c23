"""How an exported model that is there already is known as one of ours, so that it may be replaced."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pydantic import ValidationError

from mptctl.files.output_kinds import OutputKind
from mptctl.models.export_meta import KEY, ExportMeta

# How an entry of an ONNX file's metadata with our key begins in protobuf (onnx.proto, StringStringEntryProto).
_ONNX_ENTRY = b"\n" + bytes([len(KEY)]) + KEY.encode() + b"\x12"
# The same in the header of safetensors, which is JSON without blanks.
_SAFETENSORS_ENTRY = f'"{KEY}":'.encode()
# A safetensors file begins with the length of its header, in so many bytes.
_LENGTH = 8


def _is_export(path: Path) -> bool:
    """Whether a file says of itself that `mptctl export` wrote it; OSError where it cannot be read."""
    if path.suffix.lower() == ".pt2":
        try:
            with zipfile.ZipFile(path) as archive:
                return any(name.endswith(f"/extra/{KEY}.json") for name in archive.namelist())
        except zipfile.BadZipFile:
            return False
    content = path.read_bytes()
    if path.suffix.lower() == ".onnx":
        return _ONNX_ENTRY in content
    header = int.from_bytes(content[:_LENGTH], "little")
    return _SAFETENSORS_ENTRY in content[_LENGTH : _LENGTH + header]


def _is_description(path: Path) -> bool:
    try:
        ExportMeta.model_validate_json(path.read_bytes())
    except ValidationError:
        return False
    return True


EXPORT = OutputKind("exported model", _is_export)
DESCRIPTION = OutputKind("description of an exported model", _is_description)
