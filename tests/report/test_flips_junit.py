"""JUnit XML of names that XML cannot hold."""

from __future__ import annotations

from xml.etree import ElementTree

from mptctl.report.documents.ci import render_junit
from tests.report.examples import example


def test_what_xml_cannot_hold_is_replaced() -> None:
    report = example()
    check = report.gate.checks[0].model_copy(
        update={"name": "a\x00\x1b[31m]]><b>", "message": "\ud800 \ufffe & 'ü'"}
    )
    gate = report.gate.model_copy(update={"checks": [check]})
    text = render_junit(report.model_copy(update={"gate": gate}))
    case = ElementTree.fromstring(text.encode())[0][0]
    assert case.get("name") == "a\ufffd\ufffd[31m]]><b>"
    assert case[0].get("message") == "\ufffd \ufffd & 'ü'"


def test_without_a_limit_there_is_no_test() -> None:
    suites = ElementTree.fromstring(render_junit(example(with_logits=False)))
    assert (suites.get("tests"), len(suites[0])) == ("0", 0)
