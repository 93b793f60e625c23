"""The typed result of several comparisons with one old model."""

from __future__ import annotations

from pydantic import Field

from mptctl.evaluation.flip_report import FlipReport
from mptctl.files import Model


class FlipReports(Model):
    """Several replacements, each compared with the one old model."""

    reports: list[FlipReport] = Field(description="one for each NEW, in the order in which they were named")
