"""The flips of a page as data: what stands in it is what the report says, and nothing in it can end the script."""

from __future__ import annotations

import json
from collections import Counter

from mptctl.evaluation.flip_report import FlippedSample
from mptctl.report.documents.flip_list import FIRST_ROWS, flip_list
from mptctl.report.documents.flips_page import render_html
from mptctl.report.media.page import anchor, script_json
from tests.report.examples import HOSTILE, example


def test_every_column_is_that_of_the_report() -> None:
    report = example()
    found = flip_list(report.worst_flips)
    for i, flip in enumerate(report.worst_flips):
        assert found["ids"][i] == flip.id
        assert found["names"][found["label"][i]] == flip.label
        assert found["names"][found["answer"][i]] == flip.answer
        assert (found["answer"][i] in found["fresh"]) == flip.new_class
        assert f"{found['old'][i]}" == f"{100 * flip.old_confidence:.0f}"


def test_of_all_flips_the_classes_have_as_many_as_in_their_table() -> None:
    report = example(with_logits=False).model_copy(update={"worst_flips": []})
    flips = [
        FlippedSample(
            id=f"{row.label}{i}", label=row.label, answer=row.answer, new_class=row.new_class,
            old_confidence=None, new_confidence=None,
        )
        for row in report.pairs
        for i in range(row.flips)
    ]  # fmt: skip
    found = flip_list(flips)
    counted = Counter(found["names"][place] for place in found["label"])
    assert counted == {row.label: row.negative_flips for row in report.per_class if row.negative_flips}
    page = render_html(report, flips=flips)
    assert page.count('<li class="row" id="flip-') == FIRST_ROWS
    assert f"{report.counts.negative_flips} flipped samples" in page


def test_nothing_ends_the_script() -> None:
    text = script_json([HOSTILE, "</script>", "<!--", "\u2028", "&amp;"])
    assert not set("<>&'\u2028") & set(text)
    assert json.loads(text) == [HOSTILE, "</script>", "<!--", "\u2028", "&amp;"]


def test_a_link_is_one_word_that_an_address_may_hold() -> None:
    assert anchor("test/00042.png") == "flip-test/00042.png"
    assert anchor("a b'\"<ü>") == "flip-a%20b%27%22%3C%C3%BC%3E"
