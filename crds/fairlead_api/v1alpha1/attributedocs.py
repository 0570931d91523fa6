"""Docstrings of a model's attributes, read from its source when a schema is made of it.

pydantic reads them as it makes each class (`use_attribute_docstrings`), which was a third of importing this package, in
every process that reads a manifest; only those that print or install definitions show them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def attribute_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Docstrings of fields by their names in Python, those of a base where it declares the field last.

    Empty for what a class declares whose source is not to be had.
    """
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        docs = _docs_of_module(base.__module__).get(base.__qualname__, {}) if issubclass(base, BaseModel) else {}
        for name in inspect.get_annotations(base):
            found.pop(name, None)
            if name in docs:
                found[name] = docs[name]
    return {name: text for name, text in found.items() if name in model.model_fields}


@cache
def _docs_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    try:
        source = inspect.getsource(sys.modules[name])
    except (OSError, TypeError):  # a frozen program, or an interactive one
        return {}
    return dict(_docs_of_classes(ast.parse(source).body, ""))


def _docs_of_classes(body: list[ast.stmt], inside: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            name = inside + node.name
            yield name, dict(_docs(node.body))
            yield from _docs_of_classes(node.body, f"{name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docs_of_classes(node.body, f"{inside}{node.name}.<locals>.")


def _docs(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for declared, said in pairwise(body):
        if (
            isinstance(declared, ast.AnnAssign)
            and isinstance(declared.target, ast.Name)
            and isinstance(said, ast.Expr)
            and isinstance(said.value, ast.Constant)
            and isinstance(said.value.value, str)
        ):
            yield declared.target.id, inspect.cleandoc(said.value.value)
