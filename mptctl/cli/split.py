"""`mptctl split`: divide pictures into old and new classes, and into training, validation and test part."""

from __future__ import annotations

from mptctl.cli.flag_records import with_flags
from mptctl.cli.json_models import prints
from mptctl.cli.split_flags import SplitFlags


@prints({"--json": "mptctl.data.split_summary:SplitSummary"})
@with_flags
def split(*, flags: SplitFlags) -> None:
    """Divide a source into old and new classes and into parts.

    Holds a validation part out of training, finds files that cannot be used, and writes `split.json` into
    the run root, where later commands find it.

    Examples:

        mptctl split characters

        mptctl split cifar100 --data-root ~/data

        mptctl split ~/imagenet --on-bad quarantine

        mptctl split photos.csv --column label=class_name --test-fraction 0.2

        mptctl split 'shards/{000..127}.tar'
    """
    from mptctl.cli.runners.split import split_pictures

    split_pictures(flags)
