"""One tool as an index takes it: the text that it is found by, and the marks it is filtered by."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from fairlead_search.text import terms, words

TEXT_VERSION: Final = 1
"""Changes with the text of a tool, so that what was derived from an older one is made again."""
VECTOR_TEXT_VERSION: Final = 1
"""Changes with the texts that vectors are made of."""
NAME_WEIGHT: Final = 3
"""Times that the terms of a name count: it says more than any other part."""
BUILT_IN: Final = "all-MiniLM-L6-v2-int8"
"""Model of the built-in encoder."""
BUILT_IN_DIMENSIONS: Final = 384
MAX_PARAMETERS: Final = 256
"""Properties of an input schema that are read."""


class IndexedTool(msgspec.Struct, frozen=True):
    """One tool in an index."""

    key: str
    """Identifies the tool in the index, and changes with its text."""
    name: str
    server: str
    """Name or prefix of its server, as people call it."""
    description: str = ""
    parameters: tuple[str, ...] = ()
    """Names and descriptions of its arguments."""
    parameter_names: tuple[str, ...] = ()

    def counts(self) -> Counter[str]:
        """How often each term stands in the tool's text: one column of all fields, for indices per field rank worse."""
        counts: Counter[str] = Counter()
        for term in terms(self.name):
            counts[term] += NAME_WEIGHT
        for text in (self.server, self.description, *self.parameters):
            counts.update(terms(text))
        return counts

    def vector_texts(self) -> tuple[str, str]:
        """Texts that its vector is made of: the whole in a few sentences, and its name. Descriptions of arguments are
        left out, for they move a vector away from what the tool does.
        """
        name = f"{self.server}. {' '.join(words(self.name))}"
        parts = [name, self.description.rstrip(" ."), " ".join(" ".join(words(each)) for each in self.parameter_names)]
        return ". ".join(part for part in parts if part), name


def vector_key(model: str, dimensions: int, texts: Sequence[str]) -> str:
    """Identifies a vector: other where the model, its dimensions or the texts are."""
    content = "\0".join((model, str(dimensions), str(VECTOR_TEXT_VERSION), *texts))
    return hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=16).hexdigest()


def record(key: str, server: str, definition: Mapping[str, Any]) -> IndexedTool:
    """The record of an MCP definition (2026-07-28, `Tool`). What is not of the schema's type is left out."""
    name, description = definition.get("name"), definition.get("description")
    return IndexedTool(
        key,
        name if isinstance(name, str) else "",
        server,
        description if isinstance(description, str) else "",
        tuple(_parameters(definition.get("inputSchema"))),
        tuple(map(str, _properties(definition.get("inputSchema")))),
    )


def catalog_hash(keys: Iterable[str]) -> str:
    """SHA-256 over the sorted keys of all tools: equal where nothing was added, removed or changed."""
    return hashlib.sha256("\n".join((str(TEXT_VERSION), *sorted(keys))).encode()).hexdigest()


def _parameters(schema: object) -> Iterator[str]:
    for name, entry in _properties(schema).items():
        yield str(name)
        description = entry.get("description") if isinstance(entry, dict) else None
        if isinstance(description, str):
            yield description


def _properties(schema: object) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return dict(islice(properties.items(), MAX_PARAMETERS)) if isinstance(properties, dict) else {}
