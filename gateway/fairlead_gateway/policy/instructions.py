"""Merges the instructions of several servers for one endpoint, within a limit on tokens.

Pure module. Instructions go into the prompt of every client, so the limit applies to all servers together. Each server
gets an equal share; the part of a share that a server does not need goes to servers that need more. Tokens are
estimated, so that all replicas cut at the same place whether or not they have a tokenizer. For prose of any script,
Markdown, JSON and code, the estimate is higher than the count of the o200k vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.route import Route
from fairlead_gateway.core.server import OfferedItems, Server
from fairlead_gateway.policy.view import server_target
from fairlead_mcp.escaping import escape_text

if TYPE_CHECKING:
    from fairlead_gateway.policy.compiled_catalog import EndpointTools

MAX_TOKENS: Final = 2000
"""Maximum number of tokens of the merged instructions of one endpoint."""
MAX_CHARACTERS: Final = 8 * MAX_TOKENS
"""Maximum number of characters of one server's instructions that are read. A text of this length always exceeds
`MAX_TOKENS`."""
MIN_SECTION_TOKENS: Final = 100
"""Minimum number of tokens for a server's section, including heading and cut mark; a section that would get fewer
tokens is left out."""
OPENING: Final = "Instructions of the servers behind this endpoint, each for its own tools:"
_OMISSION_TOKENS: Final = 40
"""Number of tokens reserved for the last line, which says how many servers are left out."""
_HEADING: Final = re.compile(r"^([ \t]{0,3})#")
_TOKEN_GROUP: Final = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[!-/:-@\[-`{-~]+|[^\x00-\x7f]+|.", re.DOTALL)


class ServerInstructions(NamedTuple):
    """Instructions of one server."""

    title: str
    """Heading with the server's name and the prefix of its tools, on one line."""
    text: str
    location: str
    """Request target of the endpoint that has the full text."""


def instructions_of(
    endpoint: EndpointTools,
    routes: Mapping[str, Route],
    denied_servers: Collection[ServerKey],
    escaped_servers: Collection[ServerKey],
) -> str | None:
    """Merged instructions of the servers with tools in `routes`, and of servers without tools that are not in
    `denied_servers`. Control characters of the servers in `escaped_servers` are escaped. None if no server has
    instructions.
    """
    servers_with_instructions = [server for server in endpoint.servers if server.catalog.instructions]
    if endpoint.single_server or not servers_with_instructions:
        return _instructions_of(servers_with_instructions[0], escaped_servers) if servers_with_instructions else None
    visible_servers = {route.server.key for route in routes.values()}
    return merge_instructions(
        [
            ServerInstructions(
                title(server.key.name, server.catalog.prefix or ""),
                _instructions_of(server, escaped_servers) or "",
                server_target(server.key).decode(),
            )
            for server in servers_with_instructions
            if server.key in visible_servers
            or (not server.tools and server.offered != OfferedItems() and server.key not in denied_servers)
        ]
    )


def _instructions_of(server: Server, escaped_servers: Collection[ServerKey]) -> str | None:
    text = server.catalog.instructions
    return escape_text(text) if text and server.key in escaped_servers else text


def title(name: str, prefix: str) -> str:
    """Heading of a server's instructions."""
    return f"# {name} (tools {prefix}__*)" if prefix else f"# {name} (tools under their own names)"


def merge_instructions(servers: Sequence[ServerInstructions]) -> str | None:
    """Merge the instructions of servers in order, with a mark where a text is cut; None without servers."""
    if not servers:
        return None
    tokens_left = MAX_TOKENS - tokens(OPENING) - 1
    sections = [_Section(server) for server in servers[: tokens_left // MIN_SECTION_TOKENS * 8]]
    min_tokens = [min(section.needs, MIN_SECTION_TOKENS) for section in sections]
    if len(sections) < len(servers) or sum(min_tokens) > tokens_left:
        tokens_left -= _OMISSION_TOKENS
        sections = sections[: _count_fitting(min_tokens, tokens_left)]
    shares = _shares([section.needs for section in sections], tokens_left)
    texts = [section.fit(share) for section, share in zip(sections, shares, strict=True)]
    left_out = len(servers) - len(sections)
    omission = (
        [f"[{left_out} more servers have instructions, each at its own endpoint /servers/NAMESPACE/NAME/mcp]"]
        if left_out
        else []
    )
    return "\n\n".join([OPENING, *texts, *omission])


def tokens(text: str) -> int:
    """Estimate the number of tokens of a text. The estimate is rather too high than too low."""
    return sum(cost for _, cost in _token_costs(text))


def _token_costs(text: str) -> Iterator[tuple[int, int]]:
    """End position and estimated tokens of each word, number or run of other characters."""
    for match in _TOKEN_GROUP.finditer(text):
        group = match.group()
        if group.isspace():
            cost = 0 if group == " " else 1
        elif not group.isascii():
            cost = (len(group.encode("utf-8", "replace")) + 2) // 3
        elif group.isalpha():
            cost = 1 + (len(group) - 1) // 6
        elif group.isdigit():
            cost = (len(group) + 2) // 3
        else:
            cost = len(group)
        yield match.end(), cost


class _Section:
    """Section of one server in merged instructions."""

    def __init__(self, instructions: ServerInstructions) -> None:
        self._instructions = instructions
        # headings of the first level are reserved for sections: otherwise a server could imitate another server
        lines = instructions.text[:MAX_CHARACTERS].splitlines()
        self._text = "\n".join(_HEADING.sub(r"\1##", line) for line in lines).strip()
        self._heading = f"{instructions.title}\n"
        unread_tokens = MAX_TOKENS if len(instructions.text) > MAX_CHARACTERS else 0
        self.needs = tokens(self._heading) + tokens(self._text) + 1 + unread_tokens
        """Tokens of the whole section, with the line break before it."""

    def fit(self, share: int) -> str:
        """Text of the section, cut at the end of a word if it exceeds `share` tokens."""
        if self.needs <= share:
            return self._heading + self._text
        length, location = len(self._instructions.text), self._instructions.location
        mark = f"\n[cut here; see {location} for all {length:,} characters]"
        tokens_left, end = share - 1 - tokens(self._heading) - tokens(mark), 0
        for piece_end, cost in _token_costs(self._text):
            tokens_left -= cost
            if tokens_left < 0:
                break
            end = piece_end
        return f"{self._heading}{self._text[:end].rstrip()}{mark}"


def _count_fitting(needs: Sequence[int], tokens_left: int) -> int:
    """Number of leading sections that fit into `tokens_left` tokens."""
    for count, need in enumerate(needs):
        tokens_left -= need
        if tokens_left < 0:
            return count
    return len(needs)


def _shares(needs: Sequence[int], tokens_left: int) -> list[int]:
    """Tokens of each section: the number that it needs, or an equal part of the tokens that smaller sections leave."""
    shares = [0] * len(needs)
    for share_count, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], tokens_left // (len(needs) - share_count))
        tokens_left -= shares[index]
    return shares
