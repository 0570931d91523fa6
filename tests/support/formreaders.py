"""Readers of queries, forms and multipart bodies for `openapi-core`, which read them as servers do. Its own read less:

| reader | beyond openapi-core |
|---|---|
| `read_deep_object` | nested values, lists, and scalars where a schema allows them too, as `qs` and Rack read them |
| `read_form` | objects whose members are pairs of their own, of which a query may have others |
| `read_spaces` | spaces, which stand as `%20` in encoded texts alone |
| `read_multipart` | parts that are not ASCII, by werkzeug |
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openapi_core.deserializing.styles.util import delimited_loads, form_loads
from werkzeug.datastructures import ImmutableMultiDict
from werkzeug.formparser import FormDataParser

_STEP: Final = re.compile(r"\[([^\[\]]*)\]")


def read_deep_object(explode: bool, name: str, schema_type: str, location: Mapping[str, Any]) -> Any:
    """Value of a parameter in the style `deepObject`. Raises KeyError if the query has none of its pairs."""
    assert isinstance(location, ImmutableMultiDict)
    pairs = list(location.items(multi=True))
    of_name = [(key.removeprefix(name), text) for key, text in pairs if key == name or key.startswith(f"{name}[")]
    if not of_name:
        raise KeyError(name)
    if of_name[0][0] == "":
        return of_name[0][1]
    return _nest((_STEP.findall(steps), text) for steps, text in of_name)


def _nest(pairs: Iterable[tuple[list[str], str]]) -> Any:
    """Object or list of pairs, each with the steps that lead to its text."""
    groups: dict[str, list[tuple[list[str], str]]] = {}
    for steps, text in pairs:
        groups.setdefault(steps[0], []).append((steps[1:], text))
    if [*groups] == [""]:
        return [text for _, text in groups[""]]
    members = {
        step: below[0][1] if not below[0][0] else _nest(below)  # a text, or what is further down
        for step, below in groups.items()
    }
    return list(members.values()) if [*members] == [*map(str, range(len(members)))] else members


def read_form(explode: bool, name: str, schema_type: str, location: Mapping[str, Any]) -> Any:
    """Value of a parameter in the style `form`. Raises KeyError if its pair is missing, unless it is an object."""
    if explode and schema_type == "object":
        return dict(location)
    return form_loads(explode, name, schema_type, location)


def read_spaces(explode: bool, name: str, schema_type: str, location: Mapping[str, Any]) -> Any:
    """Value of a parameter in the style `spaceDelimited`. Raises KeyError if it is missing."""
    if explode:
        return form_loads(explode, name, schema_type, location)
    return delimited_loads(explode, name, schema_type, location, delimiter=" ")


def read_multipart(body: bytes, **parameters: str) -> Mapping[str, Any]:
    """Texts and bytes of the parts by name."""
    _, texts, files = FormDataParser().parse(io.BytesIO(body), "multipart/form-data", len(body), parameters)
    parts: list[tuple[str, Any]] = [*texts.items(multi=True)]
    for name, file in files.items(multi=True):
        parts.append((name, file.read()))
        file.close()
    return ImmutableMultiDict(parts)


FORM_READERS: Final = {"form": read_form, "spaceDelimited": read_spaces, "deepObject": read_deep_object}
"""Readers by style of the parameter."""
