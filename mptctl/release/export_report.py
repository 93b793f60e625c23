"""What `export` came to: the object that it prints with ``--json``."""

from __future__ import annotations

from pydantic import Field

from mptctl.files import Model
from mptctl.names import ExportFormat, Quantization


class ExportReport(Model):
    """What was exported, and how its answers differ from the checkpoint's on the validation pictures."""

    run: str = Field(description="the checkpoint")
    file: str = Field(description="what was written")
    described: str = Field(description="the JSON beside it: classes, pictures, split")
    format: ExportFormat = Field(description="of the file")
    quantized: Quantization | None = Field(description="to what its numbers were rounded")
    bytes: int = Field(description="size of the file")
    pictures: int = Field(description="validation pictures that both answered")
    max_difference: float = Field(description="largest difference of two logits")
    tolerance: float | None = Field(description="that it was to keep; null where none was set")
    answers_differ: int = Field(description="pictures that the two answer differently")
    right_before: int = Field(description="pictures that the checkpoint answers right")
    right_after: int = Field(description="pictures that the export answers right")
    negative_flips: int = Field(description="right before, wrong after")
    positive_flips: int = Field(description="wrong before, right after")
