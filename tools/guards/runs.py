"""Guards of runs, pictures, files and commands, by row of the fault table."""

from __future__ import annotations

from tools.guards.guard import Guard, Patch, one

_FULL_DISK = one(
    "a full disk is told from other errors",
    "files/writing.py",
    "_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)",
    "_FULL = ()",
)
_TOLERANT = one("no write to a stream fails", "__main__.py", "    make_outputs_unfailing()\n", "")

RUNS: dict[int, Guard] = {
    1: one(
        "a damaged checkpoint is answered by the newest sound one's name",
        "models/checkpoint.py",
        "load_safely(path, advice=_newest_valid_beside)",
        "load_safely(path)",
    ),
    2: one(
        "neither archive nor pickle is no checkpoint",
        "models/state_dict.py",
        r'if not is_archive and head[:1] != b"\x80":',
        "if False:",
    ),
    3: one("the digest is compared", "models/checkpoint.py", 'if content["digest"] != digest:', "if False:"),
    4: one(
        "weights only are unpickled",
        "models/state_dict.py",
        'map_location="cpu", weights_only=True)\n        fault',
        'map_location="cpu", weights_only=False)\n        fault',
    ),
    5: one("what could run code is named", "models/state_dict.py", "    if names:\n", "    if False:\n"),
    6: _FULL_DISK,
    7: one(
        "the optimizer's state comes back",
        "training/resume.py",
        '    restore_optimizer(student.optimizer, training["optimizer"])\n',
        "",
    ),
    8: one(
        "the loop looks at the signal",
        "training/fit.py",
        "        if stop:\n            self._save_and_stop()",
        "        if False:\n            self._save_and_stop()",
    ),
    9: one(
        "differences of the recipe are refused",
        "training/resume.py",
        "    if lines:\n        raise CheckpointError(",
        "    if False:\n        raise CheckpointError(",
    ),
    10: one(
        "the checkpoint before is tried too",
        "training/resume.py",
        "in (folder.last, folder.previous):",
        "in (folder.last,):",
    ),
    11: one(
        "the flag of the guard is looked at",
        "training/fit.py",
        "        if failed is None:\n            return",
        "        if True:\n            return",
    ),
    14: one(
        "the end of a file is looked at", "data/verify.py", "if not _is_whole(", "if False and not _is_whole("
    ),
    15: one(
        "pictures that decoders disagree on are marked",
        "data/verify.py",
        "kind = _find_kind(image)",
        "kind = STANDARD",
    ),
    16: Guard(
        "the size in the header is limited",
        (
            Patch(
                "mptctl/data/verify.py",
                "        image = Image.open(stream)\n",
                "        Image.MAX_IMAGE_PIXELS = None\n        image = Image.open(stream)\n",
            ),
            Patch("mptctl/data/verify.py", "if width * height > MAX_PIXELS:", "if False:"),
        ),
    ),
    17: one(
        "size and time of files are compared",
        "data/manifest.py",
        "        if self.is_array:\n            return\n",
        "        if True:\n            return\n",
    ),
    18: one(
        "anchors and aliases are refused",
        "files/yaml_text.py",
        '        if getattr(event, "anchor", None) is not None:\n',
        "        if False:\n",
    ),
    19: one(
        "class names are looked up in the split",
        "models/importing.py",
        "    if unknown:\n",
        "    if False:\n",
    ),
    21: one(
        "a folder that holds a run is refused",
        "models/ownership.py",
        '    if existing != "replace":\n',
        "    if False:\n",
    ),
    22: one(
        "a trial goes on in another process", "tune/ray_search.py", "max_failures=", "max_failures=0 and "
    ),
    23: Guard(
        "the folder is locked",
        (
            Patch("mptctl/models/lock.py", "    if not is_free(folder):\n", "    if False:\n"),
            Patch(
                "mptctl/models/lock.py",
                "        if not _try_to_lock(file, folder / LOCK):\n",
                "        if False:\n",
            ),
        ),
    ),
    24: Guard(
        "what cannot be listed is said, there or at the end",
        (
            Patch(
                "mptctl/data/listing/image_folder.py",
                "if is_wanted(entry))\n    except OSError as error:",
                "if is_wanted(entry))\n    except ZeroDivisionError as error:",
            ),
            Patch(
                "mptctl/cli/unforeseen.py",
                "NOT_READ = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)",
                "NOT_READ = ()",
            ),
        ),
    ),
    25: one(
        "a worker whose partner is gone says so",
        "training/distributed.py",
        "if self.size == 1 or not _is_communication(error):",
        "if True:",
    ),
    29: one("names are made visible", "errors.py", "    if text.isprintable():\n", "    if True:\n"),
    30: one("names that lead up are refused", "models/ownership.py", ' or ".." in path.parts', ""),
    31: Guard(
        "a file is written under another name",
        (
            Patch(
                "mptctl/files/writing.py",
                'return path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")',
                "return path",
            ),
            Patch(
                "mptctl/files/writing.py",
                "os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL",
                "os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC",
            ),
        ),
    ),
    32: _FULL_DISK,
    33: one(
        "a run whose process died goes on",
        "studies/study_pool.py",
        "            except RayError as error:\n                outcome",
        "            except ZeroDivisionError as error:\n                outcome",
    ),
    35: one(
        "an export that says something else is refused",
        "release/exporting.py",
        "not report.max_difference <= report.tolerance",
        "False",
    ),
    36: _TOLERANT,
    37: one(
        "an output is held against the inputs",
        "cli/outputs.py",
        "if os.path.samestat(status, status_of_source):",
        "if False:",
    ),
    38: one(
        "a run's own teachers are not replaced",
        "models/ownership.py",
        "    if not folder.exists():\n        return\n    for path in inputs",
        "    if True:\n        return\n    for path in inputs",
    ),
    41: one(
        "a split is held against its manifest",
        "data/split.py",
        "    refuse_edited(file, manifest, path)\n",
        "",
    ),
    43: one(
        "a tensor is held against its storage",
        "models/state_dict.py",
        "if value.numel() * value.itemsize > value.untyped_storage().nbytes():",
        "if False:",
    ),
    44: one(
        "a lock that somebody wrote into is refused",
        "models/lock.py",
        "        or not CONTENT.fullmatch(os.pread(file, 32, 0))\n",
        "",
    ),
    45: _TOLERANT,
    46: one(
        "the temporary folder is ours alone",
        "files/scratch.py",
        "folder.mkdir(mode=0o700)",
        "folder.mkdir()\n            folder.chmod(0o777)",
    ),
    47: one(
        "claims of others are looked at",
        "teachers/cache_budget.py",
        "            self._refuse_if_taken(others)\n            _write_claim",
        "            _write_claim",
    ),
    49: one(
        "tensors and groups of a checkpoint are looked at",
        "models/checkpoint.py",
        "        _refuse_wrong_types(model, training)\n",
        "",
    ),
    50: one(
        "what YAML raises beside its own errors is caught",
        "files/yaml_text.py",
        "except (yaml.YAMLError, ValueError, RecursionError) as error:",
        "except ZeroDivisionError as error:",
    ),
    52: one(
        "scratch is known by our own mark",
        "files/scratch.py",
        "and _marks(os.pread(mark, MARK_BYTES, 0), folder)",
        "",
    ),
    56: one(
        "a run that is there again is not counted again",
        "studies/groups.py",
        "        if shared:\n",
        "        if False:\n",
    ),
    57: one(
        "old classes are those of the split",
        "release/adjusting.py",
        'known = None if models["old"].classes is not None else split.classes.old',
        "known = None",
    ),
    59: one(
        "what is there has to be an earlier output of the same kind",
        "files/output_kinds.py",
        "        if not may_be_replaced:\n",
        "        if False:\n",
    ),
    63: one(
        "what is no regular file is not read",
        "files/text_file.py",
        "        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):\n",
        "        if False:\n",
    ),
    64: one(
        "an ensemble has a largest size",
        "training/ensemble.py",
        "    if size > MOST_MEMBERS:\n",
        "    if size > 2 * MOST_MEMBERS:\n",
    ),
    65: Guard(
        "programs of torch are refused, and an archive is held against what it unpacks to",
        (
            Patch(
                "mptctl/models/export_meta.py",
                '    if form.lower().removeprefix(".") == "pt2":\n',
                "    if False:\n",
            ),
            Patch(
                "mptctl/models/state_dict.py",
                "    if unpacked > LARGEST_RATIO * path.stat().st_size:\n",
                "    if False:\n",
            ),
        ),
    ),
    66: Guard(
        "text is no command of a CI system, and no formula",
        (
            Patch(
                "mptctl/cli/streams.py",
                "safe = COMMAND.sub(_disarm_command, whole)",
                "safe = whole",
            ),
            Patch(
                "mptctl/evaluation/reading/spreadsheet_cells.py",
                "if _FORMULA.match(text) else text",
                "if False else text",
            ),
        ),
    ),
    70: one(
        "numbers are those of YAML 1.2",
        "files/model.py",
        "        number = _number_or_none(text)\n        if number is None:\n            raise",
        "        number = float(text.replace(':', ''))\n        if number is None:\n            raise",
    ),
    71: one(
        "a run that was never saved begins anew",
        "training/train.py",
        "anew = request.resume and was_never_saved(RunDir(request.folder))",
        "anew = False",
    ),
    72: one(
        "folders that are being written are looked for",
        "cli/runners/split.py",
        "written_now = list_held_folders(run_root) if flags.overwrite else []",
        "written_now = []",
    ),
    73: one(
        "pictures of kinds that are not read are bad files",
        "data/derived_splits.py",
        "        if is_read(name) or is_unread_picture(name)\n",
        "        if is_read(name)\n",
    ),
    74: one(
        "the size before the crop follows the picture size",
        "recipe/reading.py",
        '    return _merge(merged, {"data": {"eval_resize": resize}})\n',
        "    return merged\n",
    ),
    76: one(
        "settings of another criterion are refused",
        "recipe/criterion.py",
        "        if owner != recipe.name and owner not in names:\n",
        "        if False:\n",
    ),
    77: one(
        "groups that lie in several parts are looked for",
        "data/holding_out.py",
        'torn = np.flatnonzero(find_torn_groups(parts, groups, column, quarantine=on_bad == "quarantine"))',
        "torn = np.flatnonzero(parts == BAD)",
    ),
    78: one(
        "identical pictures are looked for",
        "data/split.py",
        "        identical = find_identical(manifest, verify=verify, array=array, progress=progress)\n",
        "        identical = None\n",
    ),
    79: Guard(
        "a tar file has to end with its end marker, and each header to be one",
        (
            Patch(
                "mptctl/data/listing/tar_members.py",
                '            raise DamagedTar(place, "cut off: the end marker of the tar file is missing")\n',
                "            return\n",
            ),
            Patch(
                "mptctl/data/listing/tar_members.py",
                "        if start + member_size > size:\n",
                "        if False:\n",
            ),
        ),
    ),
    85: one(
        "keys of a store that lead out of a copy are refused",
        "data/packing/remote.py",
        "        self._refuse_keys_outside(objects)\n",
        "",
    ),
    90: one(
        "a rate is filled into its tensor",
        "training/optimizer/optim.py",
        'group["lr"].fill_(rate)',
        'group["lr"] = rate',
    ),
}
