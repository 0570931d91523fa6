"""Instructions of an endpoint that shows several servers: those of each, under its prefix, within a bound of tokens.

Pure module. Instructions go into the prompt of every client, so the bound is for all of them together, and the room
is shared fairly: a server that needs less than its share leaves the rest to those that need more. Tokens are estimated,
so that every replica cuts alike, whatever it can count with; the estimate is above what the o200k vocabulary counts for
prose of any script, Markdown, JSON and code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import Offered, Server
from fairlead_gateway.policy.view import server_target
from fairlead_mcp.escaping import escape_text

if TYPE_CHECKING:
    from fairlead_gateway.policy.compiled_catalog import EndpointTools

MAX_TOKENS: Final = 2000
MAX_CHARACTERS: Final = 8 * MAX_TOKENS
"""Characters of one server's instructions that are read: so many have more tokens than there is room for."""
LEAST: Final = 100
"""Tokens of a server's section, heading and mark included, below which it is left out altogether."""
OPENING: Final = "Instructions of the servers behind this endpoint, each for its own tools:"
_REST: Final = 40
"""Tokens reserved for the line that says how many servers are left out."""
_HEADING: Final = re.compile(r"^([ \t]{0,3})#")
_PIECE: Final = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[!-/:-@\[-`{-~]+|[^\x00-\x7f]+|.", re.DOTALL)


class Spoken(NamedTuple):
    """Instructions of one server."""

    title: str
    """Name of the server and how its tools are called, on one line."""
    text: str
    location: str
    """Target of the endpoint that tells all of it."""


def instructions_of(
    endpoint: EndpointTools,
    routes: Mapping[str, Route],
    denied_servers: Collection[ServerKey],
    escaping: Collection[ServerKey],
) -> str | None:
    """Instructions of the servers of the tools behind `routes`, and of those that have no tools at all but are not
    `denied_servers`. With the control characters of some made visible. None where no server says anything.
    """
    speaking = [server for server in endpoint.servers if server.catalog.instructions]
    if endpoint.alone or not speaking:
        return _instructions_of(speaking[0], escaping) if speaking else None
    seen = {route.server.key for route in routes.values()}
    return together(
        [
            Spoken(
                title(server.key.name, server.catalog.prefix or ""),
                _instructions_of(server, escaping) or "",
                server_target(server.key).decode(),
            )
            for server in speaking
            if server.key in seen
            or (not server.tools and server.offered != Offered() and server.key not in denied_servers)
        ]
    )


def _instructions_of(server: Server, escaping: Collection[ServerKey]) -> str | None:
    text = server.catalog.instructions
    return escape_text(text) if text and server.key in escaping else text


def title(name: str, prefix: str) -> str:
    """The heading over a server's instructions."""
    return f"# {name} (tools {prefix}__*)" if prefix else f"# {name} (tools under their own names)"


def together(servers: Sequence[Spoken]) -> str | None:
    """The instructions of all, in order, with a mark wherever some of them are cut; None where nobody says anything."""
    if not servers:
        return None
    room = MAX_TOKENS - tokens(OPENING) - 1
    sections = [_Section(server) for server in servers[: room // LEAST * 8]]
    if len(sections) < len(servers) or sum(min(section.needs, LEAST) for section in sections) > room:
        room -= _REST
        sections = sections[: _fitting([min(section.needs, LEAST) for section in sections], room)]
    shares = _shares([section.needs for section in sections], room)
    parts = [section.within(share) for section, share in zip(sections, shares, strict=True)]
    left = len(servers) - len(sections)
    rest = [f"[{left} more servers have instructions, told at /servers/NAMESPACE/NAME/mcp]"] if left else []
    return "\n\n".join([OPENING, *parts, *rest])


def tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few."""
    return sum(cost for _, cost in _pieces(text))


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where each word, number or run of signs ends, and its tokens."""
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece.isspace():
            cost = 0 if piece == " " else 1
        elif not piece.isascii():
            cost = (len(piece.encode("utf-8", "replace")) + 2) // 3
        elif piece.isalpha():
            cost = 1 + (len(piece) - 1) // 6
        elif piece.isdigit():
            cost = (len(piece) + 2) // 3
        else:
            cost = len(piece)
        yield match.end(), cost


class _Section:
    """One server's part, with the line breaks before it."""

    def __init__(self, spoken: Spoken) -> None:
        self._spoken = spoken
        # a heading of the first level is ours: by one, a server could speak in another's name
        lines = spoken.text[:MAX_CHARACTERS].splitlines()
        self._text = "\n".join(_HEADING.sub(r"\1##", line) for line in lines).strip()
        self._heading = f"{spoken.title}\n"
        more = MAX_TOKENS if len(spoken.text) > MAX_CHARACTERS else 0
        self.needs = tokens(self._heading) + tokens(self._text) + 1 + more
        """Tokens of all of it."""

    def within(self, share: int) -> str:
        """As much of it as fits so many tokens, cut at the end of a word."""
        if self.needs <= share:
            return self._heading + self._text
        mark = f"\n[cut here; all {len(self._spoken.text):,} characters are told at {self._spoken.location}]"
        room, end = share - 1 - tokens(self._heading) - tokens(mark), 0
        for after, cost in _pieces(self._text):
            room -= cost
            if room < 0:
                break
            end = after
        return f"{self._heading}{self._text[:end].rstrip()}{mark}"


def _fitting(needs: Sequence[int], room: int) -> int:
    """How many of them, from the first on, have room."""
    for count, need in enumerate(needs):
        room -= need
        if room < 0:
            return count
    return len(needs)


def _shares(needs: Sequence[int], room: int) -> list[int]:
    """Tokens for each: what it needs, or an equal part of what the more modest leave."""
    shares = [0] * len(needs)
    for done, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], room // (len(needs) - done))
        room -= shares[index]
    return shares
