"""Docstrings below the fields of a class, read from its source: they describe the fields in schemas and on pages."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from itertools import pairwise


@functools.cache
def attribute_docstrings(owner: type) -> dict[str, str]:
    """Docstrings of the fields that the body of a class declares, by the names of the fields; those of base classes are
    not included. Raises OSError if the class has no source.
    """
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef), owner
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
