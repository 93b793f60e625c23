"""One spelling a class: names that differ only in form would count as wrong, and hide every flip."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions, labels_beyond, refused_labels
from mptctl.files.explained import shown

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
# Digits up to which a number is written out to be compared: more than the longest integer type has.
DIGITS = 40
# A model of which a larger share of answers is unknown speaks of other classes than the test set.
MOST = 0.5


class Names(NamedTuple):
    """Names that one model brings: which model, what they are of it, and the names."""

    model: str
    what: str
    names: frozenset[str]


def check_spelling(models: Sequence[Predictions]) -> list[str]:
    """Refuse names of one class in two spellings, within a file and between files.

    A name is known where it is a label or stands in a class list. Two known names that differ only in form
    are two classes where a class list holds both (letters: `A` and `a`), or the labels do and more than a
    blank tells them apart.

    Args:
        models: predictions of the same samples.

    Returns:
        Warnings: labels of which some are numbers and some are names, and no class list holds all; and how
            many answers
        of which model are unknown, where these are few. Such an answer counts as wrong; it may be a class
        without test samples.

    Raises:
        DataError: names that differ only in form, places instead of names, or a model of which more than half
            of the answers are unknown; with the nearest spelling, the count, and the first three.
    """
    labels = [Names(model.name, "labels", frozenset(model.table.labels)) for model in models]
    lists = [Names(m.name, "classes", frozenset(m.classes)) for m in models if m.classes is not None]
    known = frozenset[str]().union(*(each.names for each in [*labels, *lists]))
    spellings: dict[str, list[str]] = {}
    for name in sorted(known):
        spellings.setdefault(form(name), []).append(name)
    _check_types(labels)
    _check_known(labels, lists, spellings)
    for each in lists:
        _check_places(each.model, each.names, labels[0].names)
    warnings = [_check_answers(model, known, spellings) for model in models if model.classes is None]
    return [warning for warning in (_mixed_types(labels[0], lists), *warnings) if warning]


def check_counted(models: Sequence[Predictions]) -> None:
    """Refuse labels beyond the columns of a model whose classes are the numbers of its columns.

    They are sound only as classes that came after that model: other models know them, as far as models say
    what they know, and somebody counts from 0.

    Raises:
        DataError: with how many, and the first three.
    """
    silent = any(model.classes is None for model in models)
    for model in reversed(models):
        if not model.counted or model.classes is None:
            continue
        others = frozenset().union(*(m.classes or () for m in models if m is not model))
        strange = labels_beyond(model.table.labels, len(model.classes))
        if not silent:
            strange = [label for label in strange if label not in others]
        elif "0" in others or "0" in model.table.labels:
            continue
        if strange:
            raise refused_labels(strange, model.table.labels, len(model.classes), model.name)


def form(name: str) -> str:
    """A name without case, blanks, quotes, Unicode form, and the way in which a whole number is written."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    name = _written(unicodedata.normalize("NFKC", folded)).strip("'\"")
    if NUMBER.fullmatch(name):
        number = Decimal(name)
        if abs(number.adjusted()) < DIGITS and number == number.to_integral_value():
            return str(int(number))
        return name
    return re.sub(r"[\s_-]+", " ", name).strip()


def _written(name: str) -> str:
    """A name without what cannot be seen: blanks around it, formatting characters, composed or not."""
    visible = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return " ".join(visible.split())


def _without_point(name: str) -> str:
    """A name as it is written but for `.0`: nobody means two classes by `1` and `1.0`."""
    return re.sub(r"^(\d+)\.0*$", r"\1", name, flags=re.ASCII)


def _check_types(labels: Sequence[Names]) -> None:
    """Numbers as labels of one model and names as those of another are no labels of the same samples."""
    model, _, names = labels[0]
    for other, _, theirs in labels[1:]:
        numbers = [{bool(NUMBER.fullmatch(name)) for name in found} for found in (names, theirs)]
        if numbers in ([{True}, {False}], [{False}, {True}]):
            raise DataError(
                f"{other}: its labels are {'numbers' if True in numbers[1] else 'names'}, such as "
                f"{_shown(min(theirs))}, and those of {model} "
                f"{'numbers' if True in numbers[0] else 'names'}, such as {_shown(min(names))}; use the same "
                "labels"
            )


def _mixed_types(labels: Names, lists: Sequence[Names]) -> str | None:
    """A warning, but where one model says that it knows them all: then they are the classes of one model."""
    model, _, names = labels
    if any(names <= each.names for each in lists):
        return None
    numbers = sorted(name for name in names if NUMBER.fullmatch(name))
    others = sorted(names.difference(numbers))
    if not numbers or not others:
        return None
    return (
        f"{model}: {len(numbers)} of its labels are numbers, such as {_shown(numbers[0])}, and {len(others)} "
        f"are names, such as {_shown(others[0])}; look whether these are labels of one test set"
    )


def _check_known(labels: Sequence[Names], lists: Sequence[Names], spellings: dict[str, list[str]]) -> None:
    """Known names of one form must stand together in one list, or they are one class in two spellings."""
    wrong = [pair for names in spellings.values() if len(names) > 1 for pair in _apart(names, labels, lists)]
    if not wrong:
        return
    # The label is what is right; the odd name is the one that is none.
    truths = frozenset[str]().union(*(each.names for each in labels))
    pairs = [(one, other) if other in truths else (other, one) for one, other in wrong]
    odd = pairs[0][0]
    model, what, held = next(each for each in [*lists, *labels] if odd in each.names)
    count = sum(name in held for name, _ in pairs)
    raise DataError(
        f"{model}: {count} of its {what} spelled unlike the same name elsewhere ({_written_for(pairs)}); "
        "write one spelling in all files, or both in one list of `classes` if they are two classes"
    )


def _apart(
    names: Sequence[str], labels: Sequence[Names], lists: Sequence[Names]
) -> Iterator[tuple[str, str]]:
    """Names of one form, each with the first one that it does not stand together with, in linear time.

    Names that stand in the same lists are of one kind: there are few kinds, however many names there are.
    """
    kinds: dict[tuple[frozenset[int], frozenset[int]], str] = {}
    writings: dict[str, dict[frozenset[int], str]] = {}
    for name in names:
        listed = frozenset(i for i, each in enumerate(lists) if name in each.names)
        labelled = frozenset(i for i, each in enumerate(labels) if name in each.names)
        alike = writings.setdefault(_without_point(_written(name)), {})
        apart = [other for kind, other in alike.items() if not kind & listed]
        apart += [other for kind, other in kinds.items() if not kind[0] & listed and not kind[1] & labelled]
        if apart:
            yield apart[0], name
        alike.setdefault(listed, name)
        kinds.setdefault((listed, labelled), name)


def _check_places(model: str, classes: frozenset[str], labels: frozenset[str]) -> None:
    """DataError where classes are numbers and labels names, or the other way about, with none in common."""
    numbers = [all(NUMBER.fullmatch(name) for name in names) for names in (classes, labels)]
    if not classes & labels and numbers[0] != numbers[1]:
        raise DataError(
            f"{model}: none of its {len(classes)} classes ({first(sorted(classes))}) is a label of the test "
            f"set ({first(sorted(labels))}); write names, not places in a list"
        )


def _check_answers(model: Predictions, known: frozenset[str], spellings: dict[str, list[str]]) -> str | None:
    unknown = Counter({a: n for a, n in model.table.answers.items() if a not in known})
    if not unknown:
        return None
    total = len(model)
    near = [(answer, spellings[form(answer)][0]) for answer in unknown if form(answer) in spellings]
    if near:
        count = sum(unknown[answer] for answer, _ in near)
        raise DataError(
            f"{model.name}: {count} of {total} predictions are spelled unlike the labels "
            f"({_written_for(near)}); write them as the labels are written"
        )
    numbers = [answer for answer in unknown if re.fullmatch("[0-9]+", form(answer))]
    places = [answer for answer in numbers if len(answer) < DIGITS and int(form(answer)) <= len(known)]
    if places and not any(NUMBER.fullmatch(name) for name in known):
        count = sum(unknown[answer] for answer in places)
        raise DataError(
            f"{model.name}: {count} of {total} predictions are numbers ({first(list(map(repr, places)))}), "
            f"it seems places in a list, where labels are names such as {_shown(min(known))}; write the names"
        )
    count = unknown.total()
    if count > MOST * total:
        short = {name[:60]: name for name in known}
        nearest = [
            (answer, short[difflib.get_close_matches(answer[:60], short, 1, cutoff=0)[0]])
            for answer in list(unknown)[:3]
        ]
        raise DataError(
            f"{model.name}: {count} of {total} predictions, {len(unknown)} names, are no label and in no "
            f"list of classes; nearest: {_written_for(nearest)}; write the labels, or `classes`, all that "
            "the model can predict"
        )
    return (
        f"{model.name}: {count} of {total} predictions are no label and in no list of classes "
        f"({first(list(unknown))}), and count as wrong; add `classes` to the file if it knows more classes "
        "than are tested"
    )


def _written_for(pairs: Sequence[tuple[str, str]]) -> str:
    """The first three of some pairs as `'1.0' for '1'`; escaped where two would look the same."""
    texts = []
    for one, other in pairs:
        alike = _written(one) == _written(other) and not (one + other).isascii()
        texts.append(f"{_shown(one, alike)} for {_shown(other, alike)}")
    return first([*texts])


def _shown(name: str, escaped: bool = False) -> str:
    return ascii(name) if escaped else f"'{shown(name, 25)}'"
