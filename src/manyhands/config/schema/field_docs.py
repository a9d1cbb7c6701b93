"""Help of fields: the string below each."""

import ast
import inspect
import textwrap
from dataclasses import is_dataclass
from functools import cache


@cache
def _field_docs(config: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(config))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: doc.value.value
        for field, doc in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
        if isinstance(doc.value.value, str)
    }


def help_of(config: type, name: str) -> str:
    """The string under a field, also if the field is inherited."""
    docs = (_field_docs(base).get(name) for base in config.__mro__ if is_dataclass(base))
    return next((doc for doc in docs if doc), "")
