"""Numbers of README and docs, held against what commands print from the files in results/.

A paragraph or table of such numbers begins, a line before, with a comment:

    <!-- kept: mptctl compare results/demo | mptctl compare results/demo --equal-error mpt-kl; given: 62, k = 1.2;
         64 = 100 * (1 - 81 / 225) -->

Every number of it must be printed by one of the commands, rounded or as it is; or follow from such numbers as said;
or be among the given ones, which say what was run. `low` and `high` are the ends of a rate's interval, in percent.
A source may also be a JSON file, whose numbers count as they are and as percent.
"""

from __future__ import annotations

import ast
import operator
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mptctl.cli.app import app
from mptctl.evaluation.statistics import rate

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))
# Pages of which every rate must be held.
WHOLE = ("README.md", "docs/results.md")
# Their commands draw samples anew for a dozen rows each, which takes minutes together.
NIGHTLY = "docs/research/"
KEPT = re.compile(r"<!-- kept: (.*?)-->\n\n?(.*?)(?:\n\n|\Z)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
# What is said of intervals in general, and of limits, is no claim.
RATE = re.compile(r"(?<![\w.,])(?!95 %|3 % flip|4 % flip)\d[\d.,]* %")
OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Claims:
    """A marked block: where its numbers come from, and its text."""

    page: str
    commands: tuple[str, ...]
    given: frozenset[str]
    derived: tuple[tuple[str, str], ...]
    text: str


def claims_of(page: str, text: str) -> list[Claims]:
    found = []
    for mark, block in KEPT.findall(text):
        commands, *rest = (part.strip() for part in " ".join(mark.split()).split(";"))
        given, derived = set[str](), []
        for part in filter(None, rest):
            if part.startswith("given:"):
                given.update(NUMBER.findall(part))
            else:
                number, _, sum_ = part.partition(" = ")
                derived.append((number, sum_))
        sources = tuple(command.strip() for command in commands.split(" | "))
        found.append(Claims(page, sources, frozenset(given), tuple(derived), _words(block)))
    return found


def missing_of(claims: Claims, printed: set[str]) -> list[str]:
    """Numbers of a block that are not printed, do not follow and are not given, and sums that do not hold."""
    missing = []
    for number, sum_ in claims.derived:
        operands = set(re.findall(r"\d+(?:\.\d+)?", sum_)) - {"1", "100"}
        if not all(_is_printed(each, printed) for each in operands) or not _rounds_to(_value(sum_), number):
            missing.append(f"{number} = {sum_}")
    known = claims.given | {number for number, _ in claims.derived}
    unknown = [number for number in NUMBER.findall(claims.text) if number not in known]
    return missing + [number for number in unknown if not _is_printed(number, printed)]


@lru_cache
def printed_by(command: str) -> set[str]:
    """The numbers that a command prints, which runs in this process, in the repository; or those of a JSON file."""
    if command.startswith("results/"):
        text = (ROOT / command).read_text(encoding="utf-8")
        return set(NUMBER.findall(text)) | _numbers_of_json(text)
    words = command.split()
    assert words[0] == "mptctl"
    words = [match for word in words[1:] for match in _expand(word)]
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        done = CliRunner().invoke(app, words, env={"COLUMNS": "400", "TERM": "dumb"})
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.output
    return set(NUMBER.findall(done.stdout)) | (_numbers_of_json(done.stdout) if "--json" in words else set())


def _numbers_of_json(text: str) -> set[str]:
    """Fractions as they are and as percent, without their sign."""
    fractions = re.findall(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?", text)
    return {f"{float(fraction) * scale:.6f}" for fraction in fractions for scale in (1, 100)}


def _expand(word: str) -> list[str]:
    """What a shell makes of braces and stars."""
    if braces := re.search(r"\{([^}]*)\}", word):
        each = [word.replace(braces[0], part, 1) for part in braces[1].split(",")]
        return [match for part in each for match in _expand(part)]
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]


def _words(block: str) -> str:
    """The text of a block without code, links' places and names of rows, whose numbers are no claims."""
    block = re.sub(r"`[^`]*`|\]\([^)]*\)|\$[^$]*\$", " ", block)
    return re.sub(r"\b\w+(?:-\w+)+\b", " ", block)


def _is_printed(number: str, printed: set[str]) -> bool:
    if number in printed or number.replace(",", "") in printed:
        return True
    if "." not in number:
        return f"{int(number.replace(',', '')):,}" in printed
    return any(_decimals(each) >= _decimals(number) and _rounds_to(_plain(each), number) for each in printed)


def _rounds_to(value: float, number: str) -> bool:
    return abs(value - _plain(number)) <= 0.5 * 10 ** -_decimals(number) + 1e-9


def _plain(number: str) -> float:
    return float(number.replace(",", ""))


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


def _value(sum_: str) -> float:
    def of(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as value):
                return float(value)
            case ast.BinOp(left=left, op=kind, right=right):
                return OPERATORS[type(kind)](of(left), of(right))
            case ast.Call(func=ast.Name(id="low" | "high" as end), args=[count, total]):
                ends = rate(int(of(count)), int(of(total))).ci95
                return 100 * ends[end == "high"]
        raise ValueError(f"not a sum of numbers: {sum_}")

    return of(ast.parse(sum_, mode="eval").body)


ALL = [claims for page in PAGES for claims in claims_of(page, (ROOT / page).read_text(encoding="utf-8"))]
MARKED = [
    pytest.param(
        claims,
        id=f"{claims.page}: {claims.text[:30]}",
        marks=[pytest.mark.nightly] if claims.page.startswith(NIGHTLY) else [],
    )
    for claims in ALL
]


def test_claims_are_marked() -> None:
    assert set(WHOLE) <= {claims.page for claims in ALL}


@pytest.mark.parametrize("claims", MARKED)
def test_every_number_of_a_marked_block_is_printed_or_follows(claims: Claims) -> None:
    printed = {number for command in claims.commands for number in printed_by(command)}
    missing = missing_of(claims, printed)
    assert not missing, f"{claims.page}: {missing} not printed by {' | '.join(claims.commands)}"


@pytest.mark.parametrize("page", WHOLE)
def test_no_rate_stands_outside_a_marked_block(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    loose = [rate for line in KEPT.sub("\n\n", text).splitlines() for rate in RATE.findall(line)]
    assert not loose


def test_a_number_that_no_command_prints_is_found() -> None:
    page = (
        "<!-- kept: mptctl compare results/demo; given: 62; 64 = 100 * (1 - 81 / 225); 1.74 = 100 * 81 / 4650 -->\n"
        "| 225 of 4,650, 4.84 % | 81, 1.74 % (1.3), 64 % fewer, 62 classes |\n\nnext, 7"
    )
    (claims,) = claims_of("page.md", page)
    printed = printed_by(claims.commands[0])
    assert missing_of(claims, printed) == ["1.3"]
    wrong = Claims("p", claims.commands, claims.given, (("65", "100 * (1 - 81 / 225)"),), "65 of 226")
    assert missing_of(wrong, printed) == ["65 = 100 * (1 - 81 / 225)", "226"]
