"""The commands of the panel "Look and measure"."""

from __future__ import annotations

from mptctl.cli.command import command_group
from mptctl.cli.jobs import job


@job("files.request:RootRequest", "runs:show_runs")
def runs() -> None:
    """List the runs below the run root.

    Shows method, state, validation error and date. Subfolders are searched, so that a study's seeds and an
    ensemble's members are listed. Every checkpoint is verified; a damaged one makes its run broken.

    Examples:

        mptctl runs

        mptctl runs --run-root runs-cifar10 --json
    """


@job("studies.requests:CatalogRequest", "recipes:show_recipes")
def recipes() -> None:
    """List presets and studies, or show one of them.

    Presets are taken by `--recipe`, studies by `mptctl study`.

    Examples:

        mptctl recipes

        mptctl recipes cifar100
    """


@job("data.listing.requests:PackSettings", "pack:pack_and_show")
def pack() -> None:
    """Copy pictures into class folders or tar shards.

    With --short-side each picture is decoded as every loader does, made smaller as for evaluation, and
    written once: JPEG and WebP as JPEG at quality 95, all others as PNG. Without it each is copied byte for
    byte. A command that was ended at any moment goes on when it is given again.

    Examples:

        mptctl pack ~/imagenet ~/imagenet-256 --short-side 256

        mptctl pack 'food101/*.parquet' ~/food101

        mptctl pack 'shards/{000..127}.tar' ~/pictures

        mptctl pack s3://bucket/train ~/train --to shards
    """


@job("bench.requests:LoaderRequest", "bench:measure_loader")
def loader() -> None:
    """Measure how fast pictures come: our loaders, a torch DataLoader, and the pace of the model.

    Examples:

        mptctl bench loader --data-root ~/imagenet --rows dali-mixed --set data.hw_decoder_load=0.4

        mptctl bench loader --recipe cifar10 --rows resident,dataloader-torchcodec
    """


@job("bench.requests:KernelRequest", "bench:measure_kernel")
def kernel() -> None:
    """Measure the loss and its gradient on a GPU: eager PyTorch, torch.compile, and the fused kernel.

    Examples:

        mptctl bench kernel

        mptctl bench kernel --rows 4096 --classes 1000 --json
    """


@job("bench.requests:StepRequest", "bench:measure_step")
def step() -> None:
    """Measure a training step on pictures that are already there, beside its floor and a published loop.

    Rows are student, floor (student and its teachers' forward passes), published, ours, ours-cached
    and, on a GPU, floor-graph and ours-graph (floor and ours as one CUDA graph).

    Examples:

        mptctl bench step --precision fp32,bf16

        mptctl bench step --recipe imagenet --classes 1000 --rows floor,ours
    """


bench = command_group("Measure speed on this machine.", loader=loader, kernel=kernel, step=step)
