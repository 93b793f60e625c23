"""The graph of an exported program as JSON, cut down to what cannot run code: torch's loader evaluates parts of it."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

# Functions of a graph: ATen's, and arithmetic on sizes. torch would look any name up below `torch`.
FUNCTION = re.compile(
    r"torch\.ops\.aten\.(\w+)\.\w+|_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|neg|eq|ne|lt|le|gt|ge)"
    r"|torch\.sym_(int|float|max|min|not|ite)",
    re.ASCII,
)
# Those of ATen that touch files or standard output.
REFUSED = {"from_file", "save", "load", "_print"}
# All other text: names, types, versions. Where torch writes Python of it that is a name, or with the dash that some
# networks have in theirs (RegNet: block1-0) a difference of names; nothing is called.
PLAIN = re.compile(r"[\w.-]*", re.ASCII)
# torch gives text of sizes to sympy, which evaluates it as Python; these are sympy's and torch's functions of sizes.
SIZES = {
    "Symbol", "Integer", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "FloorDiv", "CleanDiv", "CeilDiv",
    "PythonMod", "CeilToInt", "FloorToInt", "IntTrueDiv", "ToFloat", "TruncToInt", "Eq", "Ne",
    "GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan",
}  # fmt: skip
SYMBOL = re.compile(r"[su]\d+", re.ASCII)
PAYLOAD = re.compile(r"(weight|tensor)_\d+", re.ASCII)
CONTAINERS = {"builtins.tuple", "builtins.list", "builtins.dict", None}


class Unsafe(ValueError):
    """What in a graph could run code."""


def safe_graph(content: bytes) -> bytes:
    """The graph without notes and guards, which are not needed for an answer.

    Args:
        content: JSON as torch writes it.

    Raises:
        Unsafe: a function, a size or a name that is more than that.
        ValueError: it is no such JSON.
    """
    graph = json.loads(content)
    if not isinstance(graph, dict):
        raise ValueError("its graph is no object")
    graph = _bare(graph)
    _check(graph, "")
    return json.dumps(graph).encode()


def safe_config(content: bytes) -> bytes:
    """A list of tensors that lie in the archive as bare bytes; arguments and errors as `safe_graph`."""
    config = json.loads(content)
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise ValueError("its list of tensors is none")
    _check(config, "")
    for name, entry in entries.items():
        if entry.get("use_pickle") is not False or not PAYLOAD.fullmatch(str(entry.get("path_name"))):
            raise Unsafe(f"{name[:60]!r} as a pickle or an object")
    return json.dumps(config).encode()


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        empty: dict[str, Any] = {"metadata": {}, "guards_code": [], "torch_version": ""}
        return {key: empty[key] if key in empty else _bare(each) for key, each in value.items()}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _check(value: Any, key: str) -> None:
    if isinstance(value, dict):
        for name, each in value.items():
            if not PLAIN.fullmatch(name):
                raise Unsafe(f"the name {name[:60]!r}")
            _check(each, name)
    elif isinstance(value, list):
        for each in value:
            _check(each, key)
    elif isinstance(value, str):
        _check_text(value, key)


def _check_text(text: str, key: str) -> None:
    if key in ("target", "as_operator"):
        found = FUNCTION.fullmatch(text)
        if found is None or found[1] in REFUSED:
            raise Unsafe(f"the function {text[:60]!r}")
    elif key == "expr_str":
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise Unsafe(f"the size {text[:60]!r}") from None
        if not _is_size(tree):
            raise Unsafe(f"the size {text[:60]!r}")
    elif key in ("in_spec", "out_spec"):
        _check_containers(json.loads(text))
    elif key != "as_string" and not PLAIN.fullmatch(text):  # which torch writes as a literal
        raise Unsafe(f"the text {text[:60]!r}")


def _is_size(node: ast.expr) -> bool:
    """Whether an expression is arithmetic on symbols and integers, called by sympy's names."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        flags = all(isinstance(each.value, ast.Constant) and each.arg is not None for each in node.keywords)
        if name == "Symbol":
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            return flags and len(node.args) == 1 and bool(texts) and bool(SYMBOL.fullmatch(str(texts[0])))
        return name in SIZES and flags and all(map(_is_size, node.args))
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.Pow) and _is_size(node.left) and _is_size(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_size(node.operand)
    if isinstance(node, ast.Name):
        return SYMBOL.fullmatch(node.id) is not None
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, bool)


def _check_containers(spec: Any) -> None:
    """Refuse containers of arguments that torch would import a module for."""
    if isinstance(spec, dict):
        if not set(spec) <= {"type", "context", "children_spec"} or spec.get("type") not in CONTAINERS:
            raise Unsafe(f"a container {str(spec.get('type'))[:60]!r}")
        if spec.get("context") not in (None, "null", "[]"):
            raise Unsafe(f"a container of {str(spec.get('context'))[:60]!r}")
        _check_containers(spec.get("children_spec"))
    elif isinstance(spec, list):
        for each in spec:
            _check_containers(each)
    elif not isinstance(spec, int):
        raise Unsafe(f"a container {str(spec)[:60]!r}")
