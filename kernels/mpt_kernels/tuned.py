"""Layouts of the row kernels that were fastest on a GPU, by size; written by `tests.gpu.tune_kernel`."""

from mpt_kernels.layouts import NarrowLayout, Size, WideLayout

# NVIDIA H200, torch 2.11.0+cu130, Triton 3.6.0.
NARROW: dict[Size, NarrowLayout] = {
    Size(capability=90, most_classes=128, bytes=4, few=True): NarrowLayout(held=4),
    Size(capability=90, most_classes=128, bytes=4, few=False): NarrowLayout(held=16),
    Size(capability=90, most_classes=128, bytes=2, few=True): NarrowLayout(held=4),
    Size(capability=90, most_classes=128, bytes=2, few=False): NarrowLayout(held=16),
    Size(capability=90, most_classes=1024, bytes=4, few=True): NarrowLayout(power=True),
    Size(capability=90, most_classes=1024, bytes=4, few=False): NarrowLayout(power=True),
    Size(capability=90, most_classes=1024, bytes=2, few=True): NarrowLayout(held=8, warps=4, vector=4),
    Size(capability=90, most_classes=1024, bytes=2, few=False): NarrowLayout(power=True),
}
WIDE: dict[Size, WideLayout] = {
    Size(capability=90, most_classes=1048576, bytes=4, few=True): WideLayout(warps=32, each=4, power=True),
    Size(capability=90, most_classes=1048576, bytes=4, few=False): WideLayout(warps=32, each=4, power=True),
    Size(capability=90, most_classes=1048576, bytes=2, few=True): WideLayout(
        warps=16, each=4, caching=True, power=True
    ),
    Size(capability=90, most_classes=1048576, bytes=2, few=False): WideLayout(
        warps=8, caching=True, power=True
    ),
}
