"""Scan of all texts in a server's definitions for hidden characters and phrases that address the model. No I/O.

Findings are reported in a condition and an event. Definitions are not edited; people decide what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairlead_api.documents.pins import Pinned
from fairlead_api.v1alpha1.causes import Cause
from fairlead_tools.definitions.hidden import describe_hidden_characters
from fairlead_tools.definitions.markup import describe_model_phrases
from fairlead_tools.definitions.printable import fit

FINDINGS_LIMIT: Final = 50
"""Number of findings after which the scan of a server ends."""
_MAX_SHOWN_PATH: Final = 100


@dataclass(frozen=True)
class Finding:
    """Suspicious text in a definition. `member` is its path, such as `inputSchema.properties.path.description`."""

    cause: Cause
    sort: str
    name: str
    member: str
    what: str

    def __str__(self) -> str:
        subject = f"{self.sort} {fit(self.name)}" if self.name else self.sort
        return (
            f"{subject}: {fit(self.member, _MAX_SHOWN_PATH)}: {self.what}" if self.member else f"{subject}: {self.what}"
        )


def scan(definitions: Iterable[Pinned]) -> tuple[Finding, ...]:
    """Scan definitions, with at most one finding per cause and text. Takes linear time."""
    findings: list[Finding] = []
    for definition in definitions:
        for member, text in _texts(definition):
            for cause, description in (
                (Cause.HIDDEN_CHARACTERS, describe_hidden_characters(text)),
                (Cause.SPEAKS_TO_THE_MODEL, describe_model_phrases(text)),
            ):
                if description:
                    findings.append(Finding(cause, definition.sort, definition.name, member, description))
        if len(findings) >= FINDINGS_LIMIT:
            break
    return tuple(findings[:FINDINGS_LIMIT])


def _texts(definition: Pinned) -> Iterator[tuple[str, str]]:
    """Yield every string of a definition, including names of members, with its path."""
    try:
        root = msgspec.json.decode(definition.definition)
    except (msgspec.MsgspecError, RecursionError):
        return
    pending: list[tuple[str, Any]] = [("", root)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            for key, member in value.items():
                member_path = f"{path[:_MAX_SHOWN_PATH]}.{key}" if path else str(key)
                yield f"a member name in {path}" if path else "a member name", str(key)
                pending.append((member_path, member))
        elif isinstance(value, list):
            pending += [(f"{path[:_MAX_SHOWN_PATH]}[{number}]", member) for number, member in enumerate(value)]
