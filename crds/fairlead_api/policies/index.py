"""The tools of one namespace, as bits: which of them a rule matches. Pure.

Gateway and operator index what they know by it, and so match alike.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import itemgetter
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import Raw

from fairlead_api.documents.rules import Policy, Rule
from fairlead_api.policies.globs import SortedNames, bits_of, flags_of
from fairlead_api.slices import empty_in_slices, finish, invert_in_slices, list_in_slices, order_in_slices

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
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""Hints assumed where a tool gives none, or its server is not trusted: the defaults of MCP (2025-11-25, schema,
ToolAnnotations).
"""

READ_ONLY: Final = "ReadOnly"
"""`autoRun` of policies after which only tools with a trusted `readOnlyHint` are called without the caller."""
_FEW: Final = 64
"""Tools whose annotations are read between two pauses."""


class _AnnotatedTools(msgspec.Struct):
    annotations: dict[str, object] | None = None


_annotated = msgspec.json.Decoder(_AnnotatedTools).decode


class ToolIndex:
    """Index of all tools by names, tags, categories and hints, with one bit per tool in the order of name and server;
    bit 0 is the first.
    """

    def __init__(self, shelves: Iterable[Shelved] = ()) -> None:
        finish(self.filling(shelves))

    def filling(self, shelves: Iterable[Shelved]) -> Generator[None, None, None]:
        """Put the tools of all servers in, in slices; once."""
        shelves = tuple(shelves)
        unordered = (
            (tool.name, selectable.server, position, number)
            for position, selectable in sorted(enumerate(shelves), key=lambda each: each[1].server)
            for number, tool in enumerate(selectable.tools)
        )
        # by texts alone, which takes half as long as by tuples
        held = yield from order_in_slices(unordered, itemgetter(0))
        self.refs = tuple((yield from list_in_slices((server, name) for name, server, _, _ in held)))
        """Server and tool, by place."""
        self._sorted = tuple((yield from list_in_slices((name, server) for name, server, _, _ in held)))
        self._tools = tuple(
            (yield from list_in_slices(shelves[position].tools[number] for _, _, position, number in held))
        )
        self._trusted = tuple((yield from list_in_slices(shelves[position].trusted for _, _, position, _ in held)))
        self._names = SortedNames()
        yield from self._names.filling((yield from list_in_slices(each[0] for each in held)))
        self._globs: dict[str, int] = {}
        self._true: dict[str, int] | None = None
        places = yield from invert_in_slices((server, position) for position, (server, _) in enumerate(self.refs))
        self._servers: dict[str, int] = {}
        for server, tool_positions in places.items():
            self._servers[server] = bits_of(tool_positions)
            yield
        self.servers = tuple(selectable.server for selectable in shelves)
        """All of them, those without tools included."""
        self._words: dict[str, dict[str, int]] = {}
        yield from empty_in_slices(held)

    def parts(self) -> Iterable[object]:
        """Large members, so that they can be freed in slices."""
        return chain(self.refs, self._sorted)

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def all(self) -> int:
        """Bits of every tool."""
        return (1 << len(self.refs)) - 1

    def position(self, server: str, tool: str) -> int | None:
        """Where a tool stands; None: it does not."""
        at = bisect_left(self._sorted, (tool, server))
        return at if at < len(self.refs) and self.refs[at] == (server, tool) else None

    def preparing(self, policies: Iterable[Policy]) -> Generator[None, None, None]:
        """Read what policies will look at, tags or annotations, now and not with the first question."""
        policies = tuple(policies)
        rules = tuple(chain.from_iterable(policy.rules for policy in policies))
        globs = {*chain.from_iterable(rule.tools for rule in rules)}
        globs.update(chain.from_iterable(policy.pinned for policy in policies))
        yield from self._names.preparing(globs)
        self._globs = {glob: bits for glob, bits in self._globs.items() if glob in globs}
        for member in ("tags", "categories"):
            if any(getattr(rule, member) for rule in rules):
                yield from self._reading_words(member)
        if any(rule.annotations for rule in rules) or any(policy.auto_run == READ_ONLY for policy in policies):
            yield from self._reading_hints()

    def of_servers(self, servers: Iterable[str]) -> int:
        """Bits of the tools of some servers."""
        bits = 0
        for server in servers:
            bits |= self._servers.get(server, 0)
        return bits

    def match(self, globs: Iterable[str]) -> int:
        """Bits of the tools whose name one of the globs matches."""
        bits = 0
        for glob in globs:
            matches = self._globs.get(glob)
            if matches is None:
                matches = self._globs[glob] = self._names.matching(glob)
            bits |= matches
        return bits

    def matching(self, rule: Rule) -> int:
        """Bits of the tools that a rule is about: all that it gives must match, in a list one entry is enough."""
        bits = self.match(rule.tools) if rule.tools else self.all
        if rule.tags:
            bits &= self._bits_of_words("tags", rule.tags)
        if rule.categories:
            bits &= self._bits_of_words("categories", rule.categories)
        for hint, wanted in rule.annotations.items():
            bits &= self._hinting(hint, wanted=wanted)
        return bits

    @property
    def read_only(self) -> int:
        """Bits of the tools with a trusted `readOnlyHint`."""
        return self._hinting("readOnlyHint", wanted=True)

    def select(self, bits: int, items: Sequence[Item]) -> Iterable[Item]:
        """Those of `items` whose bit is set in `bits`; `items` holds one per tool."""
        return compress(items, flags_of(bits, len(self.refs)))

    def _bits_of_words(self, member: str, words: Iterable[str]) -> int:
        if member not in self._words:
            finish(self._reading_words(member))
        bits_by_word = self._words[member]
        bits = 0
        for word in words:
            bits |= bits_by_word.get(word, 0)
        return bits

    def _reading_words(self, member: str) -> Generator[None, None, None]:
        if member not in self._words:
            words = ((word, position) for position, tool in enumerate(self._tools) for word in getattr(tool, member))
            places = yield from invert_in_slices(words)
            self._words[member] = {word: bits_of(positions) for word, positions in places.items()}

    def _hinting(self, hint: str, *, wanted: bool) -> int:
        if self._true is None:
            finish(self._reading_hints())
        assert self._true is not None, "they were read"
        if hint not in self._true:
            return 0
        return self._true[hint] if wanted else self.all & ~self._true[hint]

    def _reading_hints(self) -> Generator[None, None, None]:
        if self._true is not None:
            return
        places: dict[str, list[int]] = {hint: [] for hint in WORST}
        for position, (tool, trusted) in enumerate(zip(self._tools, self._trusted, strict=True)):
            hints = _hints(tool, trusted)
            for hint, worst in WORST.items():
                value = hints.get(hint)
                if value if isinstance(value, bool) else worst:
                    places[hint].append(position)
            if position % _FEW == _FEW - 1:
                yield
        true = {}
        for hint, positions in places.items():
            true[hint] = bits_of(positions)
            yield
        self._true = true


def _hints(tool: Listed, trusted: bool) -> Mapping[str, object]:
    if not trusted or b"Hint" not in bytes(tool.definition):
        return {}
    try:
        return _annotated(tool.definition).annotations or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
