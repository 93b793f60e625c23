"""The commands of the panel "Compare"."""

from __future__ import annotations

from mptctl.cli.command import command_group
from mptctl.cli.jobs import job


@job("studies.requests:StudySettings", "study:train_study")
def study() -> None:
    """Train the missing runs of a table of methods and seeds.

    Finished runs are kept and interrupted ones continued, so the same command goes on after any
    interruption. A run that fails is named, runs that do not depend on it go on, and the exit code is 1.
    Prints the table at the end.

    Examples:

        mptctl study demo --seeds 1,2

        mptctl study cifar100-r18 --data-root ~/data --dry-run

        mptctl study cifar100-r18 --data-root ~/data --report cifar100.html

        mptctl study which --data-root ~/photos --cost 2.7
    """


@job("studies.requests:CompareRequest", "compare:compare_and_show")
def compare() -> None:
    """Compare updates over seeds: flips, errors, cost.

    Prints one row for each method, and which differences are more than noise of samples and retraining.
    Predictions are kept beside each checkpoint, so the same table is printed again at once, also when only
    predictions, recipes and metrics are left.

    Examples:

        mptctl compare runs/cifar100-r18 --latex table.tex --report table.html

        mptctl compare no-treatment mpt-kl mpt-lm --json

        mptctl compare runs/cifar100-r18 --equal-error mpt-kl --against mpt-kl

        mptctl compare runs/which --part val --choose
    """


@job("inference.requests:EmbeddingRequest", "figure:draw_embedding")
def embedding() -> None:
    """Draw test pictures as models with a 2-dimensional embedding see them, over the regions of their
    classes.

    Old and new classes have different markers, and a line parts their regions. The models are trained with
    model.embedding_dim=2.

    Examples:

        mptctl train-mpt --recipe cifar10-embedding

        mptctl figure embedding old no-treatment mpt-kl --out embedding.svg
    """


@job("data.listing.requests:SheetRequest", "figure:draw_training_pictures")
def augment() -> None:
    """Draw training pictures as the model sees them: cut, transformed and mixed as the recipe says.

    They are the first ones of an epoch, to the bit as a run with this recipe and seed gets them; the colours
    are those before normalisation.

    Examples:

        mptctl figure augment --recipe mine.yaml

        mptctl figure augment --set data.mixup=0.2 --epoch 1
    """


figure = command_group(
    "Draw what models have learnt, and what they train on.", embedding=embedding, augment=augment
)
