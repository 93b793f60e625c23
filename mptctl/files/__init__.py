"""Reads and writes files: atomic writing, records with named fields, and temporary folders."""

from mptctl.files.model import Model
from mptctl.files.scratch import scratch_folder
from mptctl.files.text_file import read_bounded, read_names, read_text
from mptctl.files.writing import (
    PARTIAL,
    FilesTogether,
    OpenOutput,
    link_or_copy,
    locked_folder,
    output_file,
    remove_partial_files,
    replacing,
    storage_error,
    write_atomically,
    writing,
)

__all__ = [
    "PARTIAL",
    "FilesTogether",
    "Model",
    "OpenOutput",
    "link_or_copy",
    "locked_folder",
    "output_file",
    "read_bounded",
    "read_names",
    "read_text",
    "remove_partial_files",
    "replacing",
    "scratch_folder",
    "storage_error",
    "write_atomically",
    "writing",
]
