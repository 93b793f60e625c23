"""One spelling a class: names that differ only in form would count as wrong, and hide every flip."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

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


class Correction(NamedTuple):
    """A name in a wrong spelling, and the name that seems to be meant."""

    wrong: str
    right: str


class _Holders(NamedTuple):
    """The class lists and the models' labels that hold one name, by their places."""

    lists: frozenset[int]
    labels: frozenset[int]


def check_spelling(models: Sequence[Predictions]) -> list[str]:
    """Refuse names of one class in two spellings, within a file and between files.

    A name is known where it is a label or stands in a class list. Two known names that differ only in form
    are two classes where a class list holds both (letters: `A` and `a`), or the labels do and more than a
    blank tells them apart.

    Args:
        models: predictions of the same samples.

    Returns:
        Warnings. One, where some labels are numbers, some are names, and no class list holds them all. One
            for each model of which few answers are unknown; they count as wrong, and may be classes without
            test samples.

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

    Such a label may be a class that came after that model. It is taken for one where another model knows it.
    Where some model does not say what it knows, it is taken for one if there is a class 0: labels that count
    from 1, which also lie beyond the columns, have none.

    Raises:
        DataError: with how many, and the first three.
    """
    all_say_what_they_know = all(model.classes is not None for model in models)
    for model in reversed(models):  # of several that are wrong the last is named
        if not model.counted or model.classes is None:
            continue
        known_to_others = frozenset().union(*(m.classes or () for m in models if m is not model))
        wrong = labels_beyond(model.table.labels, len(model.classes))
        if all_say_what_they_know:
            wrong = [label for label in wrong if label not in known_to_others]
        elif "0" in known_to_others or "0" in model.table.labels:
            wrong = []
        if wrong:
            raise refused_labels(wrong, model.table.labels, len(model.classes), model.name)


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
    """Refuse models of which one has only numbers as labels, and another only names."""
    model, _, names = labels[0]
    kind = _numbers_or_names(names)
    for other, _, other_names in labels[1:]:
        other_kind = _numbers_or_names(other_names)
        if {kind, other_kind} == {"numbers", "names"}:
            raise DataError(
                f"{other}: its labels are {other_kind}, such as {_shown(min(other_names))}, and those of "
                f"{model} {kind}, such as {_shown(min(names))}; use the same labels"
            )


def _numbers_or_names(labels: frozenset[str]) -> Literal["numbers", "names", "both"]:
    numbers = sum(NUMBER.fullmatch(label) is not None for label in labels)
    if numbers == len(labels):
        return "numbers"
    return "both" if numbers else "names"


def _mixed_types(labels: Names, lists: Sequence[Names]) -> str | None:
    """A warning, but where one model says that it knows them all: then they are the classes of one model."""
    model, _, names = labels
    if any(names <= each.names for each in lists):
        return None
    numbers = sorted(name for name in names if NUMBER.fullmatch(name))
    others = sorted(names.difference(numbers))
    if not numbers or not others or all(len(name) == 1 for name in names):
        return None  # characters, digits among them, are labels of one kind
    return (
        f"{model}: {len(numbers)} of its labels are numbers, such as {_shown(numbers[0])}, and {len(others)} "
        f"are names, such as {_shown(others[0])}; look whether these are labels of one test set"
    )


def _check_known(labels: Sequence[Names], lists: Sequence[Names], spellings: dict[str, list[str]]) -> None:
    """Refuse known names of one form that are one class in two spellings, as `_clashes` finds them."""
    all_labels = frozenset[str]().union(*(each.names for each in labels))
    corrections = []
    for names in [names for names in spellings.values() if len(names) > 1]:
        for earlier, later in _clashes(names, labels, lists):
            # A label is right; where both names are labels, the earlier one is called wrong.
            later_is_right = later in all_labels
            corrections.append(Correction(earlier, later) if later_is_right else Correction(later, earlier))
    if not corrections:
        return
    # The message is about the first model that holds the first wrong name.
    holder = next(each for each in [*lists, *labels] if corrections[0].wrong in each.names)
    count = sum(each.wrong in holder.names for each in corrections)
    raise DataError(
        f"{holder.model}: {count} of its {holder.what} spelled unlike the same name elsewhere "
        f"({_written_for(corrections)}); write one spelling in all files, or both in one list of `classes` "
        "if they are two classes"
    )


def _clashes(
    names: Sequence[str], labels: Sequence[Names], lists: Sequence[Names]
) -> Iterator[tuple[str, str]]:
    """Pairs of names of one form that are one class: an earlier name and a later one, one pair a later name.

    Two names are two classes where one class list holds both; or where the labels of one model do, and more
    than a blank or `.0` tells them apart. A name is held only against the first of those that have the same
    holders, which are few: so the time grows with the number of names, not with its square.
    """
    first_by_holders: dict[_Holders, str] = {}
    first_by_writing_and_lists: dict[str, dict[frozenset[int], str]] = {}
    for name in names:
        holders = _Holders(
            lists=frozenset(i for i, each in enumerate(lists) if name in each.names),
            labels=frozenset(i for i, each in enumerate(labels) if name in each.names),
        )
        written_alike = first_by_writing_and_lists.setdefault(_without_point(_written(name)), {})
        clashing = [
            other for other_lists, other in written_alike.items() if other_lists.isdisjoint(holders.lists)
        ]
        clashing += [
            other
            for its_holders, other in first_by_holders.items()
            if its_holders.lists.isdisjoint(holders.lists) and its_holders.labels.isdisjoint(holders.labels)
        ]
        if clashing:
            yield clashing[0], name
        written_alike.setdefault(holders.lists, name)
        first_by_holders.setdefault(holders, name)


def _check_places(model: str, classes: frozenset[str], labels: frozenset[str]) -> None:
    """DataError where classes are numbers and labels names, or the other way about, with none in common."""
    numbers = [all(NUMBER.fullmatch(name) for name in names) for names in (classes, labels)]
    if not classes & labels and numbers[0] != numbers[1]:
        raise DataError(
            f"{model}: none of its {len(classes)} classes ({first(sorted(classes))}) is a label of the test "
            f"set ({first(sorted(labels))}); write names, not places in a list"
        )


def _check_answers(model: Predictions, known: frozenset[str], spellings: dict[str, list[str]]) -> str | None:
    """Refuse unknown answers that are misspelled, places in a list, or too many; a warning for others."""
    unknown = Counter({a: n for a, n in model.table.answers.items() if a not in known})
    if not unknown:
        return None
    total = len(model)
    misspelled = [
        Correction(answer, spellings[form(answer)][0]) for answer in unknown if form(answer) in spellings
    ]
    if misspelled:
        count = sum(unknown[each.wrong] for each in misspelled)
        raise DataError(
            f"{model.name}: {count} of {total} predictions are spelled unlike the labels "
            f"({_written_for(misspelled)}); write them as the labels are written"
        )
    numbers = [answer for answer in unknown if re.fullmatch("[0-9]+", form(answer))]
    places = [answer for answer in numbers if len(answer) < DIGITS and int(form(answer)) <= len(known)]
    if places and not any(NUMBER.fullmatch(name) for name in known):
        count = sum(unknown[answer] for answer in places)
        raise DataError(
            f"{model.name}: {count} of {total} predictions are numbers ({first(map(repr, places))}), "
            f"it seems places in a list, where labels are names such as {_shown(min(known))}; write the names"
        )
    count = unknown.total()
    if count > MOST * total:
        nearest = [_nearest(answer, known) for answer in list(unknown)[:3]]
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


def _nearest(answer: str, known: frozenset[str]) -> Correction:
    """An answer and the known name that begins most like it; beginnings are compared, since it takes long."""
    by_beginning = {name[:60]: name for name in known}
    beginning = difflib.get_close_matches(answer[:60], by_beginning, 1, cutoff=0)[0]
    return Correction(answer, by_beginning[beginning])


def _written_for(corrections: Sequence[Correction]) -> str:
    """The first three as `'1.0' for '1'`; escaped where two would look the same."""
    texts = []
    for wrong, right in corrections:
        alike = _written(wrong) == _written(right) and not (wrong + right).isascii()
        texts.append(f"{_shown(wrong, alike)} for {_shown(right, alike)}")
    return first(texts)


def _shown(name: str, escaped: bool = False) -> str:
    return ascii(name) if escaped else f"'{shown(name, 25)}'"
