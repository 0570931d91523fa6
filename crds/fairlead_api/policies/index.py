"""The tools of one namespace, as bits: which of them a rule matches. Pure.

Made by the gateway from its snapshot and by the operator from its catalogs, so that both match alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Raw

from fairlead_api.documents.rules import Policy, Rule
from fairlead_api.policies.globs import SortedNames, bits_of, flags_of

Item = TypeVar("Item")


class Listed(Protocol):
    """A tool as catalogs and snapshots hold it."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def categories(self) -> tuple[str, ...]: ...
    @property
    def definition(self) -> bytes | Raw: ...


class Shelved(msgspec.Struct, frozen=True):
    """The tools of one server. `trusted`: its own annotations count."""

    server: str
    tools: Sequence[Listed]
    trusted: bool


WORST: Final[Mapping[str, bool]] = {
    "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True,
}  # fmt: skip
"""What counts where a tool says nothing, or its server is not trusted: the defaults of MCP (2025-11-25, schema,
ToolAnnotations).
"""


class _Annotated(msgspec.Struct):
    annotations: dict[str, object] | None = None


_annotated = msgspec.json.Decoder(_Annotated).decode


class ToolIndex:
    """See the module. Tools stand in the order of name and server; bit 0 is the first."""

    def __init__(self, shelves: Iterable[Shelved]) -> None:
        shelves = tuple(shelves)
        held = [
            (tool.name, shelf.server, place, number)
            for place, shelf in sorted(enumerate(shelves), key=lambda each: each[1].server)
            for number, tool in enumerate(shelf.tools)
        ]
        held.sort(key=itemgetter(0))  # by texts alone, which holds others up for half as long as by tuples
        self.refs = tuple((server, name) for name, server, _, _ in held)
        """Server and tool, by place."""
        self._sorted = tuple((name, server) for name, server, _, _ in held)
        self._tools = tuple(shelves[place].tools[number] for _, _, place, number in held)
        self._trusted = tuple(shelves[place].trusted for _, _, place, _ in held)
        self._names = SortedNames([each[0] for each in held])
        self._globs: dict[str, int] = {}
        self._true: dict[str, int] | None = None
        places: dict[str, list[int]] = {}
        for place, (server, _) in enumerate(self.refs):
            places.setdefault(server, []).append(place)
        self._servers = {server: bits_of(found) for server, found in places.items()}
        self.servers = tuple(shelf.server for shelf in shelves)
        """All of them, those without tools included."""
        self._words: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def all(self) -> int:
        """Bits of every tool."""
        return (1 << len(self.refs)) - 1

    def place(self, server: str, tool: str) -> int | None:
        """Where a tool stands; None: it does not."""
        at = bisect_left(self._sorted, (tool, server))
        return at if at < len(self.refs) and self.refs[at] == (server, tool) else None

    def prepare(self, policies: Iterable[Policy]) -> None:
        """Read what policies will look at, tags or annotations, now and not with the first question."""
        policies = tuple(policies)
        rules = [rule for policy in policies for rule in policy.rules]
        globs = {glob for policy in policies for glob in policy.pinned}
        globs.update(glob for rule in rules for glob in rule.tools)
        self._names.prepare(globs)
        self._globs = {glob: bits for glob, bits in self._globs.items() if glob in globs}
        for rule in rules:
            if rule.tags:
                self._worded("tags", ())
            if rule.categories:
                self._worded("categories", ())
            for hint in rule.annotations:
                self._hinting(hint, wanted=True)

    def of_servers(self, servers: Iterable[str]) -> int:
        """Bits of the tools of some servers."""
        bits = 0
        for server in servers:
            bits |= self._servers.get(server, 0)
        return bits

    def named(self, globs: Iterable[str]) -> int:
        """Bits of the tools whose name one of the globs matches."""
        bits = 0
        for glob in globs:
            found = self._globs.get(glob)
            if found is None:
                found = self._globs[glob] = self._names.matching(glob)
            bits |= found
        return bits

    def matching(self, rule: Rule) -> int:
        """Bits of the tools that a rule is about: all that it gives must match, in a list one entry is enough."""
        bits = self.named(rule.tools) if rule.tools else self.all
        if rule.tags:
            bits &= self._worded("tags", rule.tags)
        if rule.categories:
            bits &= self._worded("categories", rule.categories)
        for hint, wanted in rule.annotations.items():
            bits &= self._hinting(hint, wanted=wanted)
        return bits

    def chosen(self, bits: int, items: Sequence[Item]) -> Iterable[Item]:
        """Of `items`, one per place, those of the bits."""
        return compress(items, flags_of(bits, len(self.refs)))

    def _worded(self, member: str, words: Iterable[str]) -> int:
        known = self._words.get(member)
        if known is None:
            places: dict[str, list[int]] = {}
            for place, tool in enumerate(self._tools):
                for word in getattr(tool, member):
                    places.setdefault(word, []).append(place)
            known = self._words[member] = {word: bits_of(found) for word, found in places.items()}
        bits = 0
        for word in words:
            bits |= known.get(word, 0)
        return bits

    def _hinting(self, hint: str, *, wanted: bool) -> int:
        if self._true is None:
            places: dict[str, list[int]] = {known: [] for known in WORST}
            for place, (tool, trusted) in enumerate(zip(self._tools, self._trusted, strict=True)):
                said = _hints(tool, trusted)
                for known, worst in WORST.items():
                    value = said.get(known)
                    if value if isinstance(value, bool) else worst:
                        places[known].append(place)
            self._true = {known: bits_of(found) for known, found in places.items()}
        if hint not in self._true:
            return 0
        return self._true[hint] if wanted else self.all & ~self._true[hint]


def _hints(tool: Listed, trusted: bool) -> Mapping[str, object]:
    if not trusted or b"Hint" not in bytes(tool.definition):
        return {}
    try:
        return _annotated(tool.definition).annotations or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
