"""Record of a tool in a search index, with the texts with which queries are compared."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from fairlead_search.text import terms, words

TEXT_VERSION: Final = 1
"""Version of the rules that make terms out of a tool's definition. It is increased when they change, so that cached
indices are created again.
"""
VECTOR_TEXT_VERSION: Final = 1
"""Version of the texts from which vectors are computed."""
NAME_WEIGHT: Final = 3
"""Factor for terms of the tool's name, which say more about the tool than terms of other parts."""
BUILT_IN: Final = "all-MiniLM-L6-v2-int8"
"""Model of the built-in encoder."""
BUILT_IN_DIMENSIONS: Final = 384
MAX_PARAMETERS: Final = 256
"""Maximum number of properties of an input schema that are read."""


class IndexedTool(msgspec.Struct, frozen=True):
    """A tool in a search index."""

    key: str
    """Key of the tool in the index; it changes with the tool's text."""
    name: str
    server: str
    """Name or prefix of the server."""
    description: str = ""
    parameters: tuple[str, ...] = ()
    """Names and descriptions of the arguments."""
    parameter_names: tuple[str, ...] = ()

    def counts(self) -> Counter[str]:
        """Number of occurrences of each term in all fields together. A separate index for each field would rank
        worse.
        """
        counts: Counter[str] = Counter()
        for term in terms(self.name):
            counts[term] += NAME_WEIGHT
        for text in (self.server, self.description, *self.parameters):
            counts.update(terms(text))
        return counts

    def vector_texts(self) -> tuple[str, str]:
        """The two texts from which the tool's vector is computed: the whole text in a few sentences, and the name.
        Descriptions of arguments are left out, because they move the vector away from what the tool does.
        """
        name = f"{self.server}. {' '.join(words(self.name))}"
        parts = [name, self.description.rstrip(" ."), " ".join(" ".join(words(each)) for each in self.parameter_names)]
        return ". ".join(part for part in parts if part), name


def vector_key(model: str, dimensions: int, texts: Sequence[str]) -> str:
    """Key of a vector, which depends on the model, its dimensions and the texts."""
    content = "\0".join((model, str(dimensions), str(VECTOR_TEXT_VERSION), *texts))
    return hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=16).hexdigest()


def record(key: str, server: str, definition: Mapping[str, Any]) -> IndexedTool:
    """Create the record of a tool from its MCP definition (2026-07-28, `Tool`). Members of a wrong type are left
    out.
    """
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
    """SHA-256 over the sorted keys of all tools of a search catalog, which identifies the catalog."""
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
