"""Layouts of the row kernels that were fastest on a GPU, by size; written by `tests.gpu.tune_kernel`."""

from mpt_kernels.layouts import NarrowLayout, Size, WideLayout

# NVIDIA H200, torch 2.11, Triton 3.6; docs/kernel.md has the times, and says which size was not measured.
NARROW: dict[Size, NarrowLayout] = {
    Size(capability=90, most_classes=128, bytes=4, few=True): NarrowLayout(held=8),
    Size(capability=90, most_classes=128, bytes=2, few=True): NarrowLayout(held=16),
    Size(capability=90, most_classes=1024, bytes=4, few=True): NarrowLayout(held=8, warps=4),
    Size(capability=90, most_classes=1024, bytes=2, few=True): NarrowLayout(held=8, warps=4, vector=4),
}
WIDE: dict[Size, WideLayout] = {
    Size(capability=90, most_classes=2**20, bytes=4, few=True): WideLayout(warps=16, caching=True),
    Size(capability=90, most_classes=2**20, bytes=4, few=False): WideLayout(warps=16, each=4),
    Size(capability=90, most_classes=2**20, bytes=2, few=True): WideLayout(warps=16, caching=True),
    Size(capability=90, most_classes=2**20, bytes=2, few=False): WideLayout(caching=True),
}
