"""The commands of the panel "Train an update"."""

from __future__ import annotations

from mptctl.cli.jobs import job


@job("data.listing.requests:SplitSettings", "split:split_pictures")
def split() -> None:
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


@job("models.requests:ImportRequest", "import_:import_model")
def import_() -> None:
    """Bring in a model that was trained elsewhere.

    Writes a run folder that serves as old model or as reference. Head and stem are those of the weights;
    pictures are prepared as the recipe's data group says (--set changes it). Where there is a split, prints
    the error on its validation part; a warning follows if another common way to prepare pictures has a
    clearly lower error, or if the error is at chance level. Without a split, --recipe is needed. An ONNX
    model can be evaluated and can teach, but is never trained.

    Examples:

        mptctl import production.pt --arch resnet18 --class-names classes.txt

        mptctl import small.pt --arch resnet18 --class-names classes.txt --size 32

        mptctl import other.pt --arch resnet50 --class-names all.txt --name ref

        mptctl import ~/models/resnet18.a1_in1k --class-names classes.txt

        mptctl import production.onnx --class-names classes.txt
    """


@job("training.train_request:IndependentRequest", "train:train_old")
def train_old() -> None:
    """Train the old model, on the old classes alone.

    Writes the run folder `old`, which train-mpt and train-baseline take as their --old.

    Examples:

        mptctl train-old

        mptctl train-old --recipe cifar100 --set optim.epochs=30
    """


@job("training.train_request:IndependentRequest", "train:train_ref")
def train_ref() -> None:
    """Train the reference: plain training on all classes.

    The reference is independent of the old model; train-mpt distils from both. Writes the run folder `ref`.

    Examples:

        mptctl train-ref

        mptctl train-ref --seed 1 --name ref-1
    """


@job("training.train_request:MptRequest", "train:train_mpt")
def train_mpt() -> None:
    """Train the update with margin preserving training.

    Minimises cross-entropy with a bias k on the new classes' logits, and focal distillation from the old
    model and the reference. Writes the run folder `mpt-kl` or `mpt-lm`; with `--no-ref`, `mpt-kl-noref` or
    `mpt-lm-noref`.

    With `--max-nfr` no k is needed: k is adjusted after each epoch of the third quarter of the run, by the
    flips of the validation part. Then `adjust` shifts the new classes' logits as far as the budget still
    needs, and writes the model that keeps the budget as `NAME-adjusted`. Exits with 3 where no shift keeps
    it.

    Examples:

        mptctl train-mpt --distance kl --k 1.5

        mptctl train-mpt --distance lm --k 4 --set optim.epochs=30

        mptctl train-mpt --max-nfr 2

        mptctl train-mpt --no-ref --init old --k 1.5

        mptctl train-mpt --recipe runs/tune/best.yaml
    """


@job("training.train_request:BaselineRequest", "train:train_baseline")
def train_baseline() -> None:
    """Train the update with a rival method, or plainly.

    Writes the run folder METHOD. With `--init old` it begins with the old model's weights. ELODI needs an
    ensemble of references: give `--ref` the folder of its members, or repeat it.

    Examples:

        mptctl train-baseline no-treatment

        mptctl train-baseline no-treatment --init old --name plain-from-old

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """


@job("training.train_request:EnsembleRequest", "train_ensemble:train_members")
def train_ensemble() -> None:
    """Train several references that differ in their seed.

    Writes the run folders `ensemble/0`, `ensemble/1` and so on; `--ref ensemble` names all of them.
    Finished members are kept: the same command with a larger --size adds members, and --resume continues
    interrupted ones.

    Examples:

        mptctl train-ensemble --size 4

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """


@job("tune.tune_settings:TuneSettings", "tune:tune_k")
def tune() -> None:
    """Search k, or any keys of a method, on held-out samples.

    Writes the chosen recipe.

    Chooses the lowest NFR among the trials whose validation error is at most the reference's plus
    --max-er-increase; with --max-nfr the lowest error among the trials shown to keep that budget of flips.
    The test set is not read. Writes `tune/best.yaml`, `tune/trials.json`, `tune/tune.png`, `tune/tune.html`,
    and a run folder for each trial below `tune/trials`.

    Exits with 3, and writes no recipe, where no trial keeps the limit.

    Examples:

        mptctl tune

        mptctl tune --k 0,1,2,4 --distance kl,lm --max-er-increase 1

        mptctl tune --max-nfr 2

        mptctl tune mpt-kl --search method.k=0..8 --sampler optuna --trials 30 --asha

        mptctl tune pct-kl --search method.lam=0.1..10:log --trials 8

        mptctl train-mpt --recipe runs/tune/best.yaml
    """


@job("release.requests:AdjustSettings", "adjust:adjust_and_show")
def adjust() -> None:
    """Shift a trained update until it keeps a budget of flips.

    The shift is a constant, subtracted from the logits of all new classes; the model is written as a new
    run. The shift is chosen on the validation part; the test part is
    not read. Exits with 3, and writes nothing, where no shift keeps the budget, and names the least NFR
    that a shift reaches.

    Examples:

        mptctl adjust mpt-kl --old old --max-nfr 2

        mptctl adjust no-treatment --old old --max-er-increase 0.5

        mptctl adjust mpt-kl --temperature
    """


@job("release.requests:ExportRequest", "export:export_and_show")
def export() -> None:
    """Write a model as ONNX or safetensors.

    The file is compared with the checkpoint on validation pictures before it is written: where a logit
    differs by more than --tolerance, nothing is written and the exit code is 3. Class names, preprocessing
    and the split's fingerprint stand in the file, and in FILE.json beside it.

    Examples:

        mptctl export mpt-kl --format onnx

        mptctl export mpt-kl --format onnx --out mpt-kl.onnx
    """


@job("inference.requests:FewShotRequest", "fewshot:test_features")
def fewshot() -> None:
    """Measure few-shot accuracy on classes unknown to a run.

    Prints the mean accuracy over episodes with its 95 % interval, for a head fitted to each episode, and
    the nearest centroid; pictures are of the test part.

    With --analysis, runs trained with different margins are compared; their figure is written to --out.

    Examples:

        mptctl fewshot old --way 5 --shot 5

        mptctl fewshot m-0.3 m0 m0.3 --analysis --out margins.png
    """
