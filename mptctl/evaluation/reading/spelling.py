"""Checks that a class has one spelling in all files: another spelling would count as a wrong answer."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from mptctl.errors import DataError
from mptctl.evaluation.reading.agreement import error_of_labels, labels_beyond
from mptctl.evaluation.reading.columns import NAMED, first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.files.explained import shown

# A name that is a number, such as 3, -1.0 or 1e3.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
# Longer numbers are not compared as numbers. The longest integer type has fewer digits.
DIGITS = 40
# If more than this share of a model's answers is unknown, it was made for other classes than the test set's.
MOST = 0.5


class Names(NamedTuple):
    """Names of classes that one model brings.

    Attributes:
        model: the name of the model.
        what: ``labels`` or ``classes``, the column that they come from.
        names: each name once.
    """

    model: str
    what: str
    names: frozenset[str]


class Correction(NamedTuple):
    """A name in a wrong spelling, and the name that seems to be meant."""

    wrong: str
    right: str


def check_spelling(models: Sequence[Predictions]) -> list[str]:
    """Refuse two spellings of one class, within a file and between files.

    A name is known if it is a label or in a class list. Two known names with one `normal_form` are still two
    classes if one class list holds both, such as the letters `A` and `a`, or if the labels of one model hold
    both and they differ in more than blanks.

    Args:
        models: predictions of the same samples.

    Returns:
        A warning for each model with few unknown answers, which count as wrong and may be classes without
        test samples.

    Raises:
        DataError: one class has two spellings, answers are indices instead of names, or more than
            half of a model's answers are unknown. The message has the count, the first three, and the
            spelling that is meant.
    """
    labels = [Names(model.name, "labels", frozenset(model.table.labels)) for model in models]
    lists = [
        Names(model.name, "classes", frozenset(model.classes))
        for model in models
        if model.classes is not None
    ]
    known = frozenset[str]().union(*(names.names for names in [*labels, *lists]))
    spellings: dict[str, list[str]] = {}
    for name in sorted(known):
        spellings.setdefault(normal_form(name), []).append(name)
    _refuse_two_spellings(labels, lists, spellings)
    for class_list in lists:
        _refuse_indices(class_list, labels[0].names)
    warnings: list[str] = []
    for model in models:
        if model.classes is None:
            warnings += _check_unknown_answers(model, known, spellings)
    return warnings


def check_counted(models: Sequence[Predictions]) -> None:
    """Refuse wrong labels beside a model whose classes are the numbers of its columns of logits.

    A label beyond the columns may be a class that came after that model. If all models name their classes, it
    is one if another model has it. Else it is one if there is a label or a class 0; without a 0, the labels
    seem to count from 1.

    Raises:
        DataError: there are wrong labels; the message has the count, and the first three.
    """
    for model in reversed(models):  # of several that are wrong the last is named
        if not model.counted or model.classes is None:
            continue
        wrong = _wrong_labels(model, len(model.classes), [other for other in models if other is not model])
        if wrong:
            raise error_of_labels(wrong, model.table.labels, len(model.classes), model.name)


def _wrong_labels(model: Predictions, columns: int, others: Sequence[Predictions]) -> list[str]:
    """List the labels beyond the columns of a model's logits that are no class; see `check_counted`."""
    beyond = labels_beyond(model.table.labels, columns)
    known_to_others = frozenset[str]().union(*(other.classes or () for other in others))
    if all(other.classes is not None for other in others):
        return [label for label in beyond if label not in known_to_others]
    counts_from_0 = "0" in known_to_others or "0" in model.table.labels
    return [] if counts_from_0 else beyond


def normal_form(name: str) -> str:
    """Return what spellings of one class have in common.

    That is the name without differences of case, of Unicode form, of blanks, hyphens and underscores between
    words, of quotes around it, and of how a whole number is written.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    # Normalised again, since folding may leave characters in another form.
    plain = _as_seen(unicodedata.normalize("NFKC", folded)).strip("'\"")
    if not NUMBER.fullmatch(plain):
        return re.sub(r"[\s_-]+", " ", plain).strip()
    number = Decimal(plain)
    is_whole = abs(number.adjusted()) < DIGITS and number == number.to_integral_value()
    return str(int(number)) if is_whole else plain


def _as_seen(name: str) -> str:
    """Return a name as it looks: without invisible characters, and with single blanks only between words."""
    visible = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return " ".join(visible.split())


def _without_point(name: str) -> str:
    """Return a name without a final `.0` of a number, since nobody means two classes by `1` and `1.0`."""
    return re.sub(r"^(\d+)\.0*$", r"\1", name, flags=re.ASCII)


def _refuse_two_spellings(
    labels: Sequence[Names], lists: Sequence[Names], spellings: dict[str, list[str]]
) -> None:
    """Raise DataError where two known names are two spellings of one class.

    Args:
        labels: of each model.
        lists: the class lists.
        spellings: all known names, sorted, by their normal form.
    """
    all_labels = frozenset[str]().union(*(each.names for each in labels))
    corrections = []
    for names in spellings.values():
        for earlier, later in _find_clashes(names, labels, lists):
            if later in all_labels:
                corrections.append(Correction(wrong=earlier, right=later))
            else:
                corrections.append(Correction(wrong=later, right=earlier))
    if not corrections:
        return
    # The message names the first model with the first wrong name.
    holder = next(each for each in [*lists, *labels] if corrections[0].wrong in each.names)
    count = sum(each.wrong in holder.names for each in corrections)
    raise DataError(
        f"{holder.model}: {count} of its {holder.what} spelled unlike the same name elsewhere "
        f"({_list_corrections(corrections)}); write one spelling in all files, or both in one list of "
        "`classes` if they are two classes"
    )


def _find_clashes(
    names: Sequence[str], labels: Sequence[Names], lists: Sequence[Names]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of names, an earlier and a later one, that are two spellings of one class.

    Two names are two classes if one class list holds both, or if the labels of one model hold both and they
    differ in more than blanks and `.0`. Each name is compared only with the first of those names that have
    the same holders. These are few, so the time grows with the number of names and not with its square.

    Args:
        names: with one normal form, sorted.
        labels: of each model.
        lists: the class lists.

    Yields:
        At most one pair for each later name.
    """
    # By their holders, the first of the earlier names: of those that look alike, by their look; and of all.
    alike: dict[str, dict[frozenset[int], str]] = {}
    every: dict[frozenset[int], str] = {}
    for name in names:
        holders = frozenset(i for i, each in enumerate([*lists, *labels]) if name in each.names)
        in_lists = frozenset(i for i in holders if i < len(lists))
        looking_alike = alike.setdefault(_without_point(_as_seen(name)), {})
        # Two names that look alike are two classes if one class list holds both; two other names, also if
        # the labels of one model hold both.
        clashing = [*_of_other_holders(looking_alike, in_lists), *_of_other_holders(every, holders)]
        looking_alike.setdefault(in_lists, name)
        every.setdefault(holders, name)
        if clashing:
            yield clashing[0], name


def _of_other_holders(names: dict[frozenset[int], str], holders: frozenset[int]) -> list[str]:
    """List the names, given by their holders, that have no holder in common with ``holders``."""
    return [name for own_holders, name in names.items() if own_holders.isdisjoint(holders)]


def _refuse_indices(class_list: Names, labels: frozenset[str]) -> None:
    """Raise DataError where a class list has no label, and only one of list and labels is all numbers."""
    classes = class_list.names
    classes_are_numbers = all(NUMBER.fullmatch(name) for name in classes)
    labels_are_numbers = all(NUMBER.fullmatch(name) for name in labels)
    if not classes & labels and classes_are_numbers != labels_are_numbers:
        raise DataError(
            f"{class_list.model}: none of its {len(classes)} classes ({first(sorted(classes))}) is a label "
            f"of the test set ({first(sorted(labels))}); write names, not places in a list"
        )


def _check_unknown_answers(
    model: Predictions, known: frozenset[str], spellings: dict[str, list[str]]
) -> list[str]:
    """Check the answers of a model that are neither a label nor in any class list.

    Args:
        model: without a class list.
        known: all labels, and all names in class lists.
        spellings: the known names by their normal form.

    Returns:
        A warning if there are such answers.

    Raises:
        DataError: such answers are misspelled labels, indices into a list, or more than `MOST` of all.
    """
    unknown = Counter({answer: n for answer, n in model.table.answers.items() if answer not in known})
    if not unknown:
        return []
    _refuse_misspelled(model, unknown, spellings)
    _refuse_indices_for_names(model, unknown, known)
    count = unknown.total()
    total = len(model)
    if count > MOST * total:
        nearest = [_find_nearest(answer, known) for answer in list(unknown)[:NAMED]]
        raise DataError(
            f"{model.name}: {count} of {total} predictions, {len(unknown)} names, are no label and in no "
            f"list of classes; nearest: {_list_corrections(nearest)}; write the labels, or `classes`, all "
            "that the model can predict"
        )
    return [
        f"{model.name}: {count} of {total} predictions are no label and in no list of classes "
        f"({first(list(unknown))}), and count as wrong; add `classes` to the file if it knows more classes "
        "than are tested"
    ]


def _refuse_misspelled(model: Predictions, unknown: Counter[str], spellings: dict[str, list[str]]) -> None:
    """Raise DataError where unknown answers have the normal form of a known name."""
    misspelled = [
        Correction(answer, spellings[normal_form(answer)][0])
        for answer in unknown
        if normal_form(answer) in spellings
    ]
    if misspelled:
        count = sum(unknown[each.wrong] for each in misspelled)
        raise DataError(
            f"{model.name}: {count} of {len(model)} predictions are spelled unlike the labels "
            f"({_list_corrections(misspelled)}); write them as the labels are written"
        )


def _refuse_indices_for_names(model: Predictions, unknown: Counter[str], known: frozenset[str]) -> None:
    """Raise DataError where unknown answers are indices of the known names, none of which is a number."""
    if any(NUMBER.fullmatch(name) for name in known):
        return
    numbers = [answer for answer in unknown if re.fullmatch("[0-9]+", normal_form(answer))]
    indices = [
        answer for answer in numbers if len(answer) < DIGITS and int(normal_form(answer)) <= len(known)
    ]
    if indices:
        count = sum(unknown[answer] for answer in indices)
        raise DataError(
            f"{model.name}: {count} of {len(model)} predictions are numbers ({first(map(repr, indices))}), "
            f"it seems places in a list, where labels are names such as {_quote(min(known))}; write the names"
        )


def _find_nearest(answer: str, known: frozenset[str]) -> Correction:
    """Find the known name that is most similar to an answer.

    Only the first 60 characters are compared, since the search is slow for long names.
    """
    by_beginning = {name[:60]: name for name in known}
    beginning = difflib.get_close_matches(answer[:60], by_beginning, 1, cutoff=0)[0]
    return Correction(answer, by_beginning[beginning])


def _list_corrections(corrections: Sequence[Correction]) -> str:
    """List the first three corrections, such as `'1.0' for '1'`; names that look the same are escaped."""
    texts = []
    for wrong, right in corrections:
        look_same = _as_seen(wrong) == _as_seen(right) and not (wrong + right).isascii()
        texts.append(f"{_quote(wrong, look_same)} for {_quote(right, look_same)}")
    return first(texts)


def _quote(name: str, escaped: bool = False) -> str:
    """Quote a name for a message, cut to 25 characters, or with escapes for all but ASCII and not cut."""
    return ascii(name) if escaped else f"'{shown(name, 25)}'"
