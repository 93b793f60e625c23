"""Progress of a run: a live display in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mptctl.data.loading.base import DECODING
from mptctl.machine.facts import rank
from mptctl.models.metrics_log import MetricsLine
from mptctl.report.media.numbers import duration
from mptctl.report.media.progress_bars import LOG_SECONDS, plain_line, throttled_log
from mptctl.training.fit import LONG_RUN, LONG_WAIT
from mptctl.training.observer import FitResult, Observer


def observer() -> Observer:
    """The observer that suits standard error; workers that do not lead stay silent."""
    console = Console(stderr=True)
    if rank() != 0:
        return Observer()
    return Live(console) if console.is_terminal else Plain(console)


class Plain(Observer):
    """One line an epoch, and one every half minute in between.

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
        """Say now and then how many pictures are done."""
        self._tell(what, done, total)

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Say what begins, and what was chosen."""
        self.name, self._began = name, time.monotonic()
        self._say(f"{name}: {total_steps:,} steps" + (f", from step {step:,}" if step else ""))
        for note in notes:
            self._say(f"{name}: {note}")

    def line(self, line: MetricsLine) -> None:
        """Say an epoch's figures, or a step's now and then."""
        if line.event == "step":
            self._step = line
            if time.monotonic() - self._last >= LOG_SECONDS:
                self._say(f"{self.name}: {self._step_text(line)}")
        elif line.event == "epoch":
            training = f", {self._step_text(self._step)}" if self._step else ""
            self._say(f"{self.name}: epoch {line.epoch}: {validation_text(line)}{training}")

    def finished(self, result: FitResult) -> None:
        """Say what the run came to."""
        for text in result_lines(result):
            self._say(text)

    def _step_text(self, line: MetricsLine) -> str:
        """A step, with the wait for data where the run is long enough for something to be done about it."""
        seconds = time.monotonic() - self._began + (line.seconds_left or 0.0)
        return step_text(line, long=seconds > LONG_RUN)

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        plain_line(self.console, text)


class Live(Observer):
    """A bar with time left, loss terms, learning rate and speed; one line an epoch stays above it.

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
        self._decoding: TaskID | None = None

    def progress(self, what: str, done: int, total: int) -> None:
        """Show pictures that are decoded in a bar of their own, and validated ones in the run's."""
        if what != DECODING:
            if self.task is not None:
                self.bars.update(self.task, figures=f"validating {done:,} of {total:,} pictures")
            return
        if self._decoding is None:
            self._decoding = self.bars.add_task("decoding", total=total, figures="")
            self.bars.start()
        self.bars.update(self._decoding, completed=done, figures=f"{done:,} of {total:,} pictures")
        if done == total:
            self.bars.stop()
            self.bars.remove_task(self._decoding)
            self._decoding = None

    def started(self, name: str, total_steps: int, step: int, notes: list[str]) -> None:
        """Show the bar."""
        for note in notes:
            self.console.print(f"{name}: {note}", style="dim", highlight=False, markup=False)
        self.task = self.bars.add_task(name, total=total_steps, completed=step, figures="")
        self.bars.start()

    def line(self, line: MetricsLine) -> None:
        """Move the bar, or print an epoch's figures above it."""
        if self.task is None:
            return
        if line.event == "step":
            terms = " ".join(f"{n} {v:.2f}" for n, v in (line.terms or {}).items() if n != "loss")
            figures = f"{terms} lr {line.lr or 0.0:.3f} {line.images_per_s or 0.0:,.0f}/s"
            self.bars.update(self.task, completed=line.step, figures=figures)
        elif line.event == "epoch":
            self.bars.console.print(f"epoch {line.epoch:>3}  {validation_text(line)}", highlight=False)

    def finished(self, result: FitResult) -> None:
        """Say what the run came to."""
        self.bars.stop()
        for text in result_lines(result):
            self.console.print(text, highlight=False, markup=False)

    def closed(self) -> None:
        """Give the terminal back, also after an error."""
        self.bars.stop()


def result_lines(result: FitResult) -> list[str]:
    """The result of a run: its time, its best epoch with counts, and its wait for data."""
    name = result.run.path.name
    if result.steps and not result.trained:
        lines = [f"{name}: already finished: {result.steps:,} steps; nothing was left to train"]
    else:
        lines = [f"{name}: done, {result.trained:,} steps in {duration(result.seconds)}"]
    if (best := result.best) is not None:
        counted = (
            ("val error", best.val_error, best.val_errors, best.val_samples),
            ("old classes", best.val_error_old, best.val_errors_old, best.val_samples_old),
            ("NFR", best.val_nfr, best.val_flips, best.val_samples_old),
        )
        figures = [
            f"{what} {100 * rate:.2f} % ({count:,} of {of:,})"
            for what, rate, count, of in counted
            if rate is not None and count is not None and of
        ]
        lines.append(f"{name}: best epoch {best.epoch} of {result.epochs}: {', '.join(figures)}")
    if result.ended_after is not None:
        lines.append(f"{name}: ended after epoch {result.ended_after}: the validation error fell no more")
    if result.data is not None:
        lines.append(f"{name}: {result.data}")
    return lines


def step_text(line: MetricsLine, *, long: bool = True) -> str:
    """One step line as text: terms, rate, speed, what is left.

    Args:
        line: of the log.
        long: the run takes more than a minute, so that a wait for data is worth mending.
    """
    terms = " ".join(f"{name} {value:.3f}" for name, value in (line.terms or {}).items())
    left = f", {line.seconds_left:.0f} s left" if line.seconds_left is not None else ""
    waited = line.data_wait or 0.0
    wait = f", {100 * waited:.0f} % waiting for data" if long and waited > LONG_WAIT else ""
    speed = f"{line.images_per_s or 0.0:,.0f} images/s"
    return f"step {line.step} {terms} lr {line.lr or 0.0:.4f} {speed}{wait}{left}"


def validation_text(line: MetricsLine) -> str:
    """One epoch line as text: figures on validation samples, in percent."""
    figures = (("val error", line.val_error), ("old classes", line.val_error_old), ("NFR", line.val_nfr))
    texts = [f"{name} {100 * value:.2f} %" for name, value in figures if value is not None]
    return ", ".join(texts if line.k is None else [*texts, f"k {line.k:.2f}"])
