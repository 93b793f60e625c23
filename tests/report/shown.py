"""Documents of the other commands, from figures made by hand, for the kept texts."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from rich.console import Console

from mptctl.evaluation.gate.history import History, Release
from mptctl.evaluation.rates import Counts
from mptctl.inference.few_shot import FewShotReport, Score
from mptctl.machine.doctor import Check, DoctorReport
from mptctl.models.run_list import RunEntry, RunList
from mptctl.report.documents.few_shot import few_shot_document
from mptctl.report.documents.history import history_document
from mptctl.report.documents.lists import catalog_document, doctor_document, runs_document
from mptctl.report.documents.study import quickstart_document
from mptctl.report.media.terminal import print_document
from mptctl.studies.catalog import Catalog, CatalogEntry
from mptctl.studies.quickstart import QuickstartResult, QuickstartRow
from mptctl.studies.study_dry_run import PlannedRow, StudyDryRun
from tests.report.rendered import print_plan

Show = Callable[[Console], None]


def runs(console: Console) -> None:
    row = {"method": "mpt-kl", "epoch": 3, "epochs": 40, "when": "2026-11-22T05:12:00+00:00", "problem": None}
    entries = [
        RunEntry.model_validate(row | {"run": "mpt-kl", "state": "interrupted", "val_error": 0.1222}),
        RunEntry.model_validate(
            row | {"run": "old", "state": "finished", "val_error": 0.0222}
        ),
        RunEntry.model_validate(
            row | {"run": "ref", "state": "broken", "val_error": None, "method": None,
                   "problem": "best.pt: its tensors do not match their digest"}
        ),
    ]  # fmt: skip
    print_document(runs_document(RunList(run_root="runs", runs=entries)), console)


def history(console: Console) -> None:
    releases = [
        Release(
            date=datetime.date(2026, 3, month), old="prod.npz", new=f"candidate-{month}.npz", n=901, n_old=452,
            counts=Counts(both_right=425, negative_flips=6, positive_flips=12, both_wrong=9), nfr=6 / 452,
            nfr_ci95=(0.0061, 0.0287), rel_nfr=0.42, lost=6 / 431, er_old=0.0465, er_new=0.0332, er_all=0.0362,
            verdict="passed" if month == 1 else "undecided", fingerprint="0" * 64,
        )
        for month in (1, 2)
    ]  # fmt: skip
    print_document(history_document(History(releases=releases)), console)


def quickstart(console: Console) -> None:
    rows = [
        QuickstartRow(
            model=model, negative_flips=flips, n_old=4650, nfr=flips / 4650, nfr_ci95=(flips / 5500, flips / 4000),
            rel_nfr=None, er_old_classes=0.05, er_all=None if model == "old" else 0.1,
        )
        for model, flips in (("old", 0), ("no-treatment", 225), ("mpt-kl", 81))
    ]  # fmt: skip
    said = "Of 4,650 test characters of the 31 old classes, the plain update breaks 225."
    result = QuickstartResult(
        rows=rows, meaning=said, runs=[], report="runs/flips.html", next_command="mptctl split", seconds=1
    )  # fmt: skip
    print_document(quickstart_document(result), console)


def few_shot(console: Console) -> None:
    report = FewShotReport(
        run="runs/old/best.pt", head="linear", way=5, shot=1, query=15, seed=0, episodes=600, novel=["a"] * 20,
        accuracy=0.6754, ci95=0.0083, centroid=Score(accuracy=0.6799, ci95=None), seconds=3.4,
        seconds_features=1.0, warnings=[],
    )  # fmt: skip
    print_document(few_shot_document(report), console)


def recipes(console: Console) -> None:
    entries = [
        CatalogEntry(
            name="characters", kind="preset", description="rendered letters and digits, in minutes", content=None
        ),
        CatalogEntry(
            name="cifar100-r18", kind="study", content=None,
            description="what updates of ResNet-18 break on CIFAR-100, by method, and what each of them costs",
        ),
    ]  # fmt: skip
    print_document(catalog_document(Catalog(recipes=entries)), console)


def study_plan(console: Console) -> None:
    rows = [
        PlannedRow(
            seed=seed, run=run, method="no-treatment", teachers=[], standing=standing, steps=steps,
            step_seconds=0.0123, seconds=steps * 0.0123,
        )
        for seed, run, standing, steps in ((1, "old", "done", 0), (1, "no-treatment", "missing", 39_000))
    ]  # fmt: skip
    plan = StudyDryRun(
        study="demo", description="what two updates break", run_root="runs/demo", runs=rows, device="cpu", parallel=2,
        seconds=480.0,
    )  # fmt: skip
    print_plan(plan, console)


def doctor(console: Console) -> None:
    checks = [
        Check(name="GPU", state="missing", found="none", advice="training runs on the CPU"),
        Check(name="DALI", state="ok", found="2.4.0"),
        Check(name="cores", state="ok", found="2"),
        Check(name="storage", state="unusable", found="0.4 GB free", advice="make room"),
    ]
    print_document(doctor_document(DoctorReport(checks=checks)), console)


SHOWN = {
    "runs": runs,
    "history": history,
    "quickstart": quickstart,
    "fewshot": few_shot,
    "recipes": recipes,
    "study-plan": study_plan,
    "doctor": doctor,
}
