"""Write the gate for CI systems: annotations of a GitHub workflow, and JUnit XML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from mptctl.evaluation.flip_report import FlipReport
    from mptctl.evaluation.labels.report import LabelledReport

# Annotations of each kind that GitHub shows for a step (actions/toolkit, docs/problem-matchers.md).
SHOWN = 10
TITLE = "mptctl gate"
# Characters of the longest message: all sentences fit, and a list of many names is cut.
LONGEST = 500
# Characters that XML 1.0 cannot contain, even escaped (section 2.2).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_github(report: FlipReport | LabelledReport, verdict: str) -> str:
    """Return workflow commands: an annotation for each limit and warning, and the verdict as a notice.

    A limit that stops the release is an error, also if it is undecided. Of each kind at most `SHOWN` are
    written; the last one then says how many more there are.

    Args:
        report: with the gate.
        verdict: of the gate, in one line.
    """
    lines: list[str] = []
    failed = [check.message for check in report.gate.checks if not check.passed]
    for kind, messages in {"error": failed, "warning": report.warnings}.items():
        shown = messages if len(messages) <= SHOWN else messages[: SHOWN - 1]
        lines += [annotation(kind, message) for message in shown]
        if len(shown) < len(messages):
            more = len(messages) - len(shown)
            lines.append(annotation(kind, f"{more:,} more; all of them are in the report"))
    lines.append(annotation("notice", verdict))
    return "\n".join(lines) + "\n"


def annotation(kind: str, message: str) -> str:
    """Return the workflow command of an annotation, with a message of at most `LONGEST` characters.

    The message is escaped: it cannot end its line or begin another command.

    Args:
        kind: ``error``, ``warning`` or ``notice``.
        message: any text.
    """
    text = message if len(message) <= LONGEST else f"{message[: LONGEST - 3]}..."
    return f"::{kind} title={_escaped(TITLE, ':,')}::{_escaped(text)}"


def _escaped(text: str, reserved: str = "") -> str:
    """Text with ``%``, line breaks and reserved characters escaped, as GitHub's own library does.

    Source: actions/toolkit, packages/core/src/command.ts.
    """
    for character in f"%\r\n{reserved}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def render_junit(report: FlipReport | LabelledReport) -> str:
    """Return JUnit XML of one suite with a test for each limit.

    A limit that did not pass is a failure, of type ``fail`` or ``undecided``.
    """
    cases = []
    for check in report.gate.checks:
        case = _case(check.name)
        if check.passed:
            ElementTree.SubElement(case, "system-out").text = _xml_text(check.message)
        else:
            ElementTree.SubElement(case, "failure", type=check.answer, message=_xml_text(check.message))
        cases.append(case)
    return _suite_xml(cases, failures=sum(not check.passed for check in report.gate.checks), errors=0)


def render_junit_error(message: str) -> str:
    """Return JUnit XML of one suite whose only test is an error: the models could not be compared.

    Args:
        message: why not.
    """
    case = _case("evaluate")
    ElementTree.SubElement(case, "error", type="error", message=_xml_text(message))
    return _suite_xml([case], failures=0, errors=1)


def _case(name: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", classname="mptctl.gate", name=_xml_text(name), time="0")


def _suite_xml(cases: list[ElementTree.Element], *, failures: int, errors: int) -> str:
    """The XML of one suite of tests, indented, ending in a line break."""
    counts = {"tests": str(len(cases)), "failures": str(failures)}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(
        root, "testsuite", {"name": TITLE, **counts, "errors": str(errors), "skipped": "0", "time": "0"}
    )
    suite.extend(cases)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _xml_text(text: str) -> str:
    """Text with each character that XML cannot contain replaced by U+FFFD."""
    return _NO_XML.sub("\ufffd", text)
