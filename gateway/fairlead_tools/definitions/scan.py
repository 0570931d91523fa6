"""Scans every text of a server's definitions for hidden characters and words to the model. Pure.

Findings become a condition and an event, never an edit: agents see what the server sent, and people decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairlead_api.documents.pins import Pinned
from fairlead_api.v1alpha1.causes import Cause
from fairlead_tools.definitions.hidden import hidden
from fairlead_tools.definitions.markup import markup
from fairlead_tools.definitions.printable import fit

FINDINGS_LIMIT: Final = 50
"""The scan of a server ends there: it is bad enough."""
_PATH_SHOWN: Final = 100


@dataclass(frozen=True)
class Finding:
    """One text of one definition. `member` is its place, such as `inputSchema.properties.path.description`."""

    cause: Cause
    sort: str
    name: str
    member: str
    what: str

    def __str__(self) -> str:
        whose = f"{self.sort} {fit(self.name)}" if self.name else self.sort
        return f"{whose}: {fit(self.member, _PATH_SHOWN)}: {self.what}" if self.member else f"{whose}: {self.what}"


def scan(definitions: Iterable[Pinned]) -> tuple[Finding, ...]:
    """Findings in the definitions, at most one of a kind per text. Linear in the bytes of the definitions."""
    findings: list[Finding] = []
    for definition in definitions:
        for member, text in _texts(definition):
            for cause, what in ((Cause.HIDDEN_CHARACTERS, hidden(text)), (Cause.SPEAKS_TO_THE_MODEL, markup(text))):
                if what:
                    findings.append(Finding(cause, definition.sort, definition.name, member, what))
        if len(findings) >= FINDINGS_LIMIT:
            break
    return tuple(findings[:FINDINGS_LIMIT])


def _texts(definition: Pinned) -> Iterator[tuple[str, str]]:
    """Every string of a definition, names of members included, with its place."""
    try:
        root = msgspec.json.decode(definition.definition)
    except (msgspec.MsgspecError, RecursionError):
        return
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, member in value.items():
                inside = f"{path[:_PATH_SHOWN]}.{key}" if path else str(key)
                yield f"a name in {path}" if path else "a name", str(key)
                waiting.append((inside, member))
        elif isinstance(value, list):
            waiting += [(f"{path[:_PATH_SHOWN]}[{number}]", member) for number, member in enumerate(value)]
