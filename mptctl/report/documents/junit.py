"""The gate as JUnit XML, which CI systems list: one test for each limit."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from mptctl.evaluation.flip_report import FlipReport

# What XML 1.0 cannot hold in any spelling (section 2.2).
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: FlipReport) -> str:
    """One test suite; a limit that did not pass is a failure, of type fail or undecided."""
    checks = report.gate.checks
    failures = sum(not check.passed for check in checks)
    suite = ElementTree.Element(
        "testsuite",
        name="mptctl gate",
        tests=str(len(checks)),
        failures=str(failures),
        errors="0",
        skipped="0",
        time="0",
    )
    for check in checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname="mptctl.gate", name=_text(check.name), time="0"
        )
        if check.passed:
            ElementTree.SubElement(case, "system-out").text = _text(check.message)
        else:
            ElementTree.SubElement(case, "failure", type=check.answer, message=_text(check.message))
    root = ElementTree.Element("testsuites", tests=str(len(checks)), failures=str(failures))
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
