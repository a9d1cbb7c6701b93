"""Help of fields: the string below each."""

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from itertools import pairwise


@cache
def _field_docs(config: type) -> dict[str, str]:
    tree = _classes(config.__module__).get(config.__qualname__)
    lines = [] if tree is None else tree.body
    return {
        field.target.id: doc.value.value
        for field, doc in pairwise(lines)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
        if isinstance(doc.value.value, str)
    }


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module, which is parsed once for all of them."""
    return dict(_classes_in(ast.parse(inspect.getsource(sys.modules[module])).body))


def _classes_in(body: Sequence[ast.AST], place: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{place}{node.name}", node
            yield from _classes_in(node.body, f"{place}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield from _classes_in(node.body, f"{place}{node.name}.<locals>.")


def help_of(config: type, name: str) -> str:
    """The string under a field, also if the field is inherited."""
    docs = (_field_docs(base).get(name) for base in config.__mro__ if is_dataclass(base))
    return next((doc for doc in docs if doc), "")
