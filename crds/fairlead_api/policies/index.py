"""Index of the tools of one namespace, which returns the tools that a rule matches as a bit set.

Gateway and operator both use this index, so that their matches agree. This module has no I/O.
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
    """A tool of a catalog or a snapshot."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def categories(self) -> tuple[str, ...]: ...
    @property
    def definition(self) -> bytes | Raw: ...


class IndexedServer(msgspec.Struct, frozen=True):
    """The tools of one server. `trusted`: whether the server's own annotations count."""

    server: str
    tools: Sequence[Listed]
    trusted: bool


WORST: Final[Mapping[str, bool]] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""Hints that are assumed if a tool has no hints or its server is not trusted: MCP's defaults (2025-11-25, schema,
ToolAnnotations).
"""

READ_ONLY: Final = "ReadOnly"
"""Value of `autoRun` with which only tools with a trusted `readOnlyHint` run without the client."""
_FEW: Final = 64
"""Number of tools whose annotations are decoded in one slice."""


class _AnnotatedTools(msgspec.Struct):
    annotations: dict[str, object] | None = None


_annotated = msgspec.json.Decoder(_AnnotatedTools).decode


class ToolIndex:
    """Index of tools by name, tags, categories and hints. A bit set has one bit per tool, in the order of name and
    server; bit 0 is the first tool.
    """

    def __init__(self, servers: Iterable[IndexedServer] = ()) -> None:
        finish(self.fill_in_slices(servers))

    def fill_in_slices(self, servers: Iterable[IndexedServer]) -> Generator[None, None, None]:
        """Add the tools of all servers, in slices. Call this once only."""
        servers = tuple(servers)
        unordered = (
            (tool.name, selectable.server, position, number)
            for position, selectable in sorted(enumerate(servers), key=lambda each: each[1].server)
            for number, tool in enumerate(selectable.tools)
        )
        # comparing strings takes half as long as comparing tuples
        held = yield from order_in_slices(unordered, itemgetter(0))
        self.refs = tuple((yield from list_in_slices((server, name) for name, server, _, _ in held)))
        """Server and tool name, by position."""
        self._sorted = tuple((yield from list_in_slices((name, server) for name, server, _, _ in held)))
        self._tools = tuple(
            (yield from list_in_slices(servers[position].tools[number] for _, _, position, number in held))
        )
        self._trusted = tuple((yield from list_in_slices(servers[position].trusted for _, _, position, _ in held)))
        self._names = SortedNames()
        yield from self._names.fill_in_slices((yield from list_in_slices(each[0] for each in held)))
        self._globs: dict[str, int] = {}
        """Bits of the tools that a glob matches, for the globs that were matched so far."""
        self._true: dict[str, int] | None = None
        """Bits of the tools for which a hint is true, by hint; None until a rule compares hints."""
        places = yield from invert_in_slices((server, position) for position, (server, _) in enumerate(self.refs))
        self._servers: dict[str, int] = {}
        for server, tool_positions in places.items():
            self._servers[server] = bits_of(tool_positions)
            yield
        self.servers = tuple(selectable.server for selectable in servers)
        """All servers, including those without tools."""
        self._words: dict[str, dict[str, int]] = {}
        """Bits of the tools with a word: by `tags` or `categories`, then by word."""
        yield from empty_in_slices(held)

    def parts(self) -> Iterable[object]:
        """Large members of the index, so that they can be freed in slices."""
        return chain(self.refs, self._sorted)

    def __len__(self) -> int:
        return len(self.refs)

    @property
    def all(self) -> int:
        """Bits of every tool."""
        return (1 << len(self.refs)) - 1

    def position(self, server: str, tool: str) -> int | None:
        """Position of a tool; None if the index does not have it."""
        at = bisect_left(self._sorted, (tool, server))
        return at if at < len(self.refs) and self.refs[at] == (server, tool) else None

    def prepare_in_slices(self, policies: Iterable[Policy]) -> Generator[None, None, None]:
        """Index the globs, tags, categories and hints that the policies' rules compare, in slices, so that even the
        first match of a rule is fast.
        """
        policies = tuple(policies)
        rules = tuple(chain.from_iterable(policy.rules for policy in policies))
        globs = {*chain.from_iterable(rule.tools for rule in rules)}
        globs.update(chain.from_iterable(policy.pinned for policy in policies))
        yield from self._names.prepare_in_slices(globs)
        self._globs = {glob: bits for glob, bits in self._globs.items() if glob in globs}
        for member in ("tags", "categories"):
            if any(getattr(rule, member) for rule in rules):
                yield from self._read_words(member)
        if any(rule.annotations for rule in rules) or any(policy.auto_run == READ_ONLY for policy in policies):
            yield from self._read_hints()

    def of_servers(self, servers: Iterable[str]) -> int:
        """Bits of the tools of the given servers."""
        bits = 0
        for server in servers:
            bits |= self._servers.get(server, 0)
        return bits

    def match(self, globs: Iterable[str]) -> int:
        """Bits of the tools whose name matches any of the globs."""
        bits = 0
        for glob in globs:
            matches = self._globs.get(glob)
            if matches is None:
                matches = self._globs[glob] = self._names.matching_bits(glob)
            bits |= matches
        return bits

    def matching_bits(self, rule: Rule) -> int:
        """Bits of the tools that a rule matches. Each member that the rule sets must match; if it is a list, one of its
        entries must match.
        """
        bits = self.match(rule.tools) if rule.tools else self.all
        if rule.tags:
            bits &= self._bits_of_words("tags", rule.tags)
        if rule.categories:
            bits &= self._bits_of_words("categories", rule.categories)
        for hint, wanted in rule.annotations.items():
            bits &= self._with_hint(hint, wanted=wanted)
        return bits

    @property
    def read_only(self) -> int:
        """Bits of the tools with a trusted `readOnlyHint`."""
        return self._with_hint("readOnlyHint", wanted=True)

    def select(self, bits: int, items: Sequence[Item]) -> Iterable[Item]:
        """The items whose bit is set in `bits`; `items` has one item per tool."""
        return compress(items, flags_of(bits, len(self.refs)))

    def _bits_of_words(self, member: str, words: Iterable[str]) -> int:
        if member not in self._words:
            finish(self._read_words(member))
        bits_by_word = self._words[member]
        bits = 0
        for word in words:
            bits |= bits_by_word.get(word, 0)
        return bits

    def _read_words(self, member: str) -> Generator[None, None, None]:
        if member not in self._words:
            words = ((word, position) for position, tool in enumerate(self._tools) for word in getattr(tool, member))
            places = yield from invert_in_slices(words)
            self._words[member] = {word: bits_of(positions) for word, positions in places.items()}

    def _with_hint(self, hint: str, *, wanted: bool) -> int:
        if self._true is None:
            finish(self._read_hints())
        assert self._true is not None, "hints were read above"
        if hint not in self._true:
            return 0
        return self._true[hint] if wanted else self.all & ~self._true[hint]

    def _read_hints(self) -> Generator[None, None, None]:
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


def hints_alone(definition: bytes) -> bytes:
    """A definition that has nothing but a tool's hints: `{"annotations": …}`, or `{}` if it has none."""
    annotations = _annotations(definition)
    hints = {hint: value for hint in WORST if isinstance(value := annotations.get(hint), bool)}
    return msgspec.json.encode({"annotations": hints}) if hints else b"{}"


def _hints(tool: Listed, trusted: bool) -> Mapping[str, object]:
    return _annotations(bytes(tool.definition)) if trusted else {}


def _annotations(definition: bytes) -> Mapping[str, object]:
    if b"Hint" not in definition:
        return {}
    try:
        return _annotated(definition).annotations or {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
