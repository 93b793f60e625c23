"""Observers that show the progress of a training run: bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mptctl.machine.facts import rank
from mptctl.models.metrics_log import MetricsLine
from mptctl.report.media.numbers import duration
from mptctl.report.media.progress_bars import LOG_SECONDS, print_plain_line, throttled_log
from mptctl.training.fit import LONG_RUN, LONG_WAIT
from mptctl.training.observer import FitResult, Observer


def progress_observer() -> Observer:
    """The observer that suits standard error; a silent one in workers other than the first (rank 0)."""
    console = Console(stderr=True)
    if rank() != 0:
        return Observer()
    return ProgressBar(console) if console.is_terminal else ProgressLines(console)


class ProgressLines(Observer):
    """Prints one line an epoch, and one every half minute in between.

    Args:
        console: where lines go.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.name = ""
        self._last = time.monotonic()
        self._step: MetricsLine | None = None
        self._tell = throttled_log(self._say)
        self._began = self._last

    def progress(self, what: str, done: int, total: int) -> None:
        """Print every half minute how many pictures are decoded or validated."""
        self._tell(what, done, total)

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Print the run's name, its steps and the notes, a line each."""
        self.name = name
        self._began = time.monotonic()
        from_step = f", from step {step:,}" if step else ""
        self._say(f"{name}: {total_steps:,} steps{from_step}")
        for note in notes:
            self._say(f"{name}: {note}")

    def noted(self, note: str) -> None:
        """Print a note."""
        self._say(f"{self.name}: {note}")

    def line(self, line: MetricsLine) -> None:
        """Print the numbers of an epoch, with those of its last step, or of a step every half minute."""
        if line.event == "step":
            self._step = line
            if time.monotonic() - self._last >= LOG_SECONDS:
                self._say(f"{self.name}: {self._step_text(line)}")
        elif line.event == "epoch":
            training = f", {self._step_text(self._step)}" if self._step else ""
            self._say(f"{self.name}: epoch {line.epoch}: {validation_text(line)}{training}")

    def finished(self, result: FitResult) -> None:
        """Print the result."""
        for text in result_lines(result):
            self._say(text)

    def _step_text(self, line: MetricsLine) -> str:
        """The text of a step; whether the run is long follows from its time so far and its time left."""
        seconds = time.monotonic() - self._began + (line.seconds_left or 0.0)
        return step_text(line, is_long_run=seconds > LONG_RUN)

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print_plain_line(self.console, text)


class ProgressBar(Observer):
    """Shows a bar with time left, loss terms, learning rate and speed; one line an epoch stays above it.

    Args:
        console: a terminal.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[figures]}", style="dim"),
            console=console,
            transient=True,
        )
        self.task: TaskID | None = None
        self._passes: dict[str, TaskID] = {}

    def progress(self, what: str, done: int, total: int) -> None:
        """Show a pass over pictures in a bar of its own, until it is done."""
        if what not in self._passes:
            self._passes[what] = self.bars.add_task(what, total=total, figures="")
            self.bars.start()
        self.bars.update(
            self._passes[what], completed=done, figures=f"{done:,} of {total:,}", refresh=done == total
        )
        if done == total:
            self.bars.remove_task(self._passes.pop(what))

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Print the notes and show the bar of the run."""
        for note in notes:
            self.console.print(f"{name}: {note}", style="dim", highlight=False, markup=False)
        self.task = self.bars.add_task(name, total=total_steps, completed=step, figures="")
        self.bars.start()

    def noted(self, note: str) -> None:
        """Print a note above the bar."""
        self.bars.console.print(note, style="dim", highlight=False, markup=False)

    def line(self, line: MetricsLine) -> None:
        """Move the bar at a step, or print the numbers of an epoch above the bar."""
        if self.task is None:
            return
        if line.event == "step":
            terms = " ".join(
                f"{name} {value:.2f}" for name, value in (line.terms or {}).items() if name != "loss"
            )
            figures = f"{terms} lr {line.lr or 0.0:.3f} {line.images_per_s or 0.0:,.0f}/s"
            self.bars.update(self.task, completed=line.step, figures=figures)
        elif line.event == "epoch":
            self.bars.console.print(f"epoch {line.epoch:>3}  {validation_text(line)}", highlight=False)

    def finished(self, result: FitResult) -> None:
        """Remove the bar and print the result."""
        self.bars.stop()
        for text in result_lines(result):
            self.console.print(text, highlight=False, markup=False)

    def closed(self) -> None:
        """Remove the bar, also after an error."""
        self.bars.stop()


def result_lines(result: FitResult) -> list[str]:
    """The lines that tell the result of a run, each beginning with the run's name.

    They say its steps and time; where there is one, the best epoch with its rates and counts, the early end,
    and the bottleneck of loading.
    """
    name = result.run.path.name
    if result.steps and not result.trained:
        lines = [f"{name}: already finished: {result.steps:,} steps; nothing was left to train"]
    else:
        lines = [f"{name}: done, {result.trained:,} steps in {duration(result.seconds)}"]
    if result.best is not None:
        rates = ", ".join(_counted_rates(result.best))
        lines.append(f"{name}: best epoch {result.best.epoch} of {result.epochs}: {rates}")
    if result.ended_after is not None:
        lines.append(f"{name}: ended after epoch {result.ended_after}: the validation error fell no more")
    if result.data is not None:
        lines.append(f"{name}: {result.data}")
    return lines


def _counted_rates(line: MetricsLine) -> list[str]:
    """Validation error, error on old classes and NFR of an epoch, with counts; without the unknown ones."""
    counted = (
        ("val error", line.val_error, line.val_errors, line.val_samples),
        ("old classes", line.val_error_old, line.val_errors_old, line.val_samples_old),
        ("NFR", line.val_nfr, line.val_flips, line.val_samples_old),
    )
    return [
        f"{what} {100 * rate:.2f} % ({count:,} of {samples:,})"
        for what, rate, count, samples in counted
        if rate is not None and count is not None and samples
    ]


def step_text(line: MetricsLine, *, is_long_run: bool = True) -> str:
    """The line of a step as text: loss terms, learning rate, speed, wait for data, seconds left.

    Args:
        line: of the event ``step``.
        is_long_run: show a wait of more than `LONG_WAIT` of the time; a short run is not worth speeding up.
    """
    terms = " ".join(f"{name} {value:.3f}" for name, value in (line.terms or {}).items())
    left = f", {line.seconds_left:.0f} s left" if line.seconds_left is not None else ""
    waited = line.data_wait or 0.0
    wait = f", {100 * waited:.0f} % waiting for data" if is_long_run and waited > LONG_WAIT else ""
    speed = f"{line.images_per_s or 0.0:,.0f} images/s"
    return f"step {line.step} {terms} lr {line.lr or 0.0:.4f} {speed}{wait}{left}"


def validation_text(line: MetricsLine) -> str:
    """The line of an epoch as text: its validation rates in percent, and k where there is one."""
    rates = (("val error", line.val_error), ("old classes", line.val_error_old), ("NFR", line.val_nfr))
    texts = [f"{name} {100 * value:.2f} %" for name, value in rates if value is not None]
    return ", ".join(texts if line.k is None else [*texts, f"k {line.k:.2f}"])
