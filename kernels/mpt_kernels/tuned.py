"""Layouts of the row kernels that were fastest on a GPU, by size; written by `tests.gpu.tune_kernel`."""

from mpt_kernels.layouts import NarrowLayout, Size, WideLayout

NARROW: dict[Size, NarrowLayout] = {}
WIDE: dict[Size, WideLayout] = {}
