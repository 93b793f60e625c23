"""The gate as CI systems read it: annotations of a GitHub workflow, and JUnit XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.wording import verdict_line

# Of one step GitHub shows so many annotations of each kind (actions/toolkit, docs/problem-matchers.md).
SHOWN = 10
TITLE = "mptctl gate"
# Characters of a message: enough for any sentence of ours, and no list of names drowns the others.
LONGEST = 500
# What XML 1.0 cannot hold in any spelling (section 2.2).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_github(report: FlipReport) -> str:
    """An error for each limit that failed, a warning for each undecided one and each note, and the verdict.

    What is undecided and not let pass is an error, because it ends the call.
    """
    lines: list[str] = []
    checks = report.gate.checks
    kinds = {
        "error": [check.message for check in checks if not check.passed],
        "warning": [
            *(check.message for check in checks if check.passed and check.answer == "undecided"),
            *report.warnings,
        ],
    }
    for kind, messages in kinds.items():
        most = SHOWN if len(messages) <= SHOWN else SHOWN - 1
        lines += [annotation(kind, message) for message in messages[:most]]
        if more := messages[most:]:
            lines.append(annotation(kind, f"{len(more):,} more; all of them are in the report"))
    lines.append(annotation("notice", verdict_line(report)))
    return "\n".join(lines) + "\n"


def annotation(kind: str, message: str) -> str:
    """One workflow command. A message cannot end its line or begin a command of its own."""
    text = message if len(message) <= LONGEST else f"{message[: LONGEST - 3]}..."
    return f"::{kind} title={_escaped(TITLE, ':,')}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Text as the runner's own library writes it (actions/toolkit, packages/core/src/command.ts)."""
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def render_junit(report: FlipReport) -> str:
    """One test suite; a limit that did not pass is a failure, of type fail or undecided."""
    cases = []
    for check in report.gate.checks:
        case = _case(check.name)
        if check.passed:
            ElementTree.SubElement(case, "system-out").text = _text(check.message)
        else:
            ElementTree.SubElement(case, "failure", type=check.answer, message=_text(check.message))
        cases.append(case)
    return _suite(cases, failures=sum(not check.passed for check in report.gate.checks), errors=0)


def render_junit_error(message: str) -> str:
    """One test suite whose one test is an error: the models could not be compared."""
    case = _case("evaluate")
    ElementTree.SubElement(case, "error", type="error", message=_text(message))
    return _suite([case], failures=0, errors=1)


def _case(name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname="mptctl.gate", name=_text(name), time="0")


def _suite(cases: list[ElementTree.Element], *, failures: int, errors: int) -> str:
    counts = {"tests": str(len(cases)), "failures": str(failures)}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": TITLE, **counts, "errors": str(errors), "skipped": "0", "time": "0"}
    )
    suite.extend(cases)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
