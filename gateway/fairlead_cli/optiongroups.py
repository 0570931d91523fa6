"""Groups of options: dataclasses whose fields are options, and which a command takes as one parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def expand_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """Decorator that turns each field of a command's option groups into a separate option, in field order.

    A group is a parameter whose annotation is a dataclass. Each field needs a default, and an annotation that typer
    supports.
    """
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, type] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            options += _options(kind)
        else:
            options.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(verb)
    def run(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        verb(**values)

    run.__annotations__ = {option.name: option.annotation for option in options} | {"return": None}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined] # `inspect.signature` returns it
    return run


def _options(group: type) -> list[inspect.Parameter]:
    """Parameters for the fields of a group."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]
