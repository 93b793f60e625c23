"""Guards of predictions that are read and compared, of gates and of reports, by row of the fault table."""

from __future__ import annotations

from tools.guards.guard import Guard, Patch, one

COMPARISONS: dict[int, Guard] = {
    12: one(
        "rows that are not finite are counted",
        "evaluation/reading/predictions.py",
        "    if bad:\n",
        "    if False:\n",
    ),
    13: one(
        "a comparison of no sample is refused",
        "evaluation/evaluate.py",
        "if not answers.counts().total:",
        "if False:",
    ),
    20: one(
        "the join is one to one",
        "evaluation/pairing/join.py",
        "                raise self._error_of_ids()\n",
        "                pass\n",
    ),
    26: one(
        "one and the same model fails",
        "evaluation/gate/check.py",
        "if identical and not limits.allow_identical:",
        "if False:",
    ),
    27: one(
        "lost right answers have a warning",
        "evaluation/pairing/sanity.py",
        "if right and counts.negative_flips / right >= NEARLY_ALL:",
        "if False:",
    ),
    28: one(
        "an archive is held against free memory",
        "evaluation/reading/npz_file.py",
        "if needed > free:",
        "if False:",
    ),
    34: one(
        "an expired waiver does not hold",
        "evaluation/gate/rules.py",
        "expired=waiver.expires < today,",
        "expired=False,",
    ),
    39: one(
        "floats that are no whole numbers are refused",
        "evaluation/reading/columns.py",
        "if not sound.all():",
        "if False:",
    ),
    40: one(
        "other spellings are looked for",
        "evaluation/reading/spelling.py",
        "    if misspelled:\n",
        "    if False:\n",
    ),
    42: one(
        "a header is held against its member",
        "evaluation/reading/npz_file.py",
        "if header.size != info.file_size or",
        "if",
    ),
    48: Guard(
        "limits are held against what a rate can be, and bounds are exact",
        (
            Patch(
                "mptctl/evaluation/limits.py", "            kind.check_range(limit)\n", "            pass\n"
            ),
            Patch(
                "mptctl/evaluation/statistics.py",
                "float(betainccinv(count + 1, total - count, tail)) if count < total else 1.0",
                "count / total",
            ),
        ),
    ),
    51: one(
        "an unfinished run fails",
        "evaluation/gate/check.py",
        "if unfinished and not limits.allow_unfinished:",
        "if False:",
    ),
    53: one(
        "logits of one column are refused",
        "evaluation/reading/predictions.py",
        "    if logits.shape[1] == 1:\n",
        "    if False:\n",
    ),
    54: Guard(
        "masks, names of columns and of rows count",
        (
            Patch(
                "mptctl/evaluation/reading/arrays.py",
                "    if masked:\n        raise",
                "    if False:\n        raise",
            ),
            Patch(
                "mptctl/evaluation/reading/named_arrays.py",
                "    columns = _column_names(value) if values.ndim == 2 else None\n",
                "    columns = None\n",
            ),
            Patch(
                "mptctl/evaluation/reading/named_arrays.py",
                "        if table.rows is None:\n",
                "        if True:\n",
            ),
        ),
    ),
    55: one(
        "what stands among parts is looked at",
        "evaluation/reading/readers.py",
        "        for part in parts:\n            _refuse_unreadable(part, path)\n",
        "        parts = [part for part in parts if part.suffix in FORMS and part.is_file()]\n",
    ),
    58: one(
        "an undecided limit fails beside a gate file",
        "evaluation/gate/gate_file.py",
        'if self._is_read:\n            content["undecided"] = "fail"',
        "pass",
    ),
    61: one(
        "files of one command take their names together",
        "report/documents/flips_files.py",
        "path, files.open, beside",
        "path, beside",
    ),
    62: Guard(
        "ids of a file that a gate file names are named by line, and so are keys of another file in its place",
        (
            Patch(
                "mptctl/evaluation/gate/rules.py",
                "    lines = {} if listed is None else listed.lines\n",
                "    lines: dict[str, int] = {}\n",
            ),
            Patch(
                "mptctl/evaluation/gate/gate_file.py",
                "    refuse_unknown_keys(text, GateFile.model_fields, str(path))\n",
                "",
            ),
        ),
    ),
    67: one(
        "columns that are called as the reader's own are read row by row",
        "evaluation/reading/parquet_file.py",
        "        if not OF_THE_READER.isdisjoint(lower):\n            return None\n",
        "",
    ),
    68: one(
        "labels of a training loop are looked at",
        "integrations/flip_monitor.py",
        "    if wrong := [v for v in given if v < 0 and v != -100]:",
        "    if wrong := [v for v in given if False]:",
    ),
    69: one(
        "a waiver of a slice has a cap",
        "evaluation/gate/gate_file.py",
        "if self.by is not None and self.max_flips is None:",
        "if False:",
    ),
    75: one(
        "the gate is held to both readings",
        "evaluation/gate/check.py",
        "    if _worst_answer([gate.answer, other.answer]) == gate.answer:\n",
        "    if True:\n",
    ),
    80: one(
        "an old model that is right by chance is a fault",
        "evaluation/pairing/confusion.py",
        "    if confusion.right and kappa is not None and kappa <= 0:\n",
        "    if False:\n",
    ),
    81: one(
        "exchanged names of classes are found",
        "evaluation/pairing/confusion.py",
        "        if _log_tail(renamed_right, tosses) <= log_allowed:\n",
        "        if False:\n",
    ),
    84: one(
        "a pass that needs waivers is named so",
        "evaluation/gate/check.py",
        'answer, interval, needs_waivers = "pass", None, True',
        'answer, interval = "pass", None',
    ),
    83: Guard(
        "slices and rules of samples to keep are looked at one by one",
        (
            Patch(
                "mptctl/evaluation/gate/rules.py",
                "        if may_be_by_chance(found.counts.old_right, found.counts.total)\n",
                "        if False\n",
            ),
            Patch(
                "mptctl/evaluation/gate/rules.py",
                '            named.append(f"{samples:,} samples of {name}")\n',
                "            pass\n",
            ),
        ),
    ),
    82: one(
        "flags that could loosen a gate file are refused",
        "evaluation/gate/gate_file.py",
        "            if is_given:\n",
        "            if False:\n",
    ),
    86: one(
        "the length of texts is looked at before they are read",
        "evaluation/reading/parquet_file.py",
        "        if longest is not None and longest > LONGEST_VALUE:\n",
        "        if False:\n",
    ),
    89: one(
        "each thread has a workspace of its own",
        "evaluation/reading/workspace.py",
        "    work = _current.get()\n    if work is None:\n",
        "    work = globals().get('shared')\n    globals()['shared'] = work = work or Workspace()\n    if False:\n",
    ),
}
