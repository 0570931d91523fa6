"""Table of the methods that name a tool, prompt, resource, task or skill of a server, extensions included. No I/O.

Routing, access checks and rewriting read this table. A method that is not in the table is not passed on to servers, as
it could name an object that its caller may not see. A new extension (SEP-2133) needs a row for each of its methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

from fairlead_mcp import uris

PREFIX: Final = "io.modelcontextprotocol/"
TASKS: Final = PREFIX + "tasks"
"""Extension of SEP-2663."""
UI: Final = PREFIX + "ui"
"""Extension of SEP-1865 (MCP Apps)."""
SKILLS: Final = PREFIX + "skills"
"""Extension of SEP-2640."""


class TargetKind(Enum):
    """Kind of object that a request names."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"
    REFERENCE = "reference"
    """Prompt or resource template, in the `ref` of a completion request."""
    TASK = "task"
    SKILL = "skill"


class HeaderRule(Enum):
    """Rule for the header `Mcp-Name`, which repeats the name (SEP-2243, SEP-2663)."""

    NONE = "none"
    CHECKED = "checked"
    """Has to match if it is sent: some clients leave it out."""
    REQUIRED = "required"


class Method(NamedTuple):
    """Row of the table."""

    kind: TargetKind
    member: str
    """Member of `params` that names the object."""
    header: HeaderRule = HeaderRule.NONE
    extension: str = ""
    """Extension that the method belongs to; empty for the core of MCP."""
    needs_declaration: bool = False
    """Whether each request has to declare the extension (-32021)."""
    in_legacy: bool = True
    """Whether the method exists for clients of 2025-11-25 and before."""
    in_modern: bool = True
    """Whether the method exists for clients of 2026-07-28 and later."""
    idempotent: bool = True
    """Whether a request may be repeated although the server may have received it."""
    uris: uris.UriPositions = MappingProxyType({})
    """Positions of resource URIs in the method's result."""


_TASK_METHOD: Final = Method(
    TargetKind.TASK, "taskId", HeaderRule.CHECKED, TASKS, needs_declaration=True, in_legacy=False
)
METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "tools/call": Method(TargetKind.TOOL, "name", HeaderRule.REQUIRED, idempotent=False, uris=uris.TOOL_RESULT),
        "prompts/get": Method(TargetKind.PROMPT, "name", HeaderRule.REQUIRED, uris=uris.PROMPT_RESULT),
        "resources/read": Method(TargetKind.RESOURCE, "uri", HeaderRule.REQUIRED, uris=uris.RESOURCE_RESULT),
        "resources/subscribe": Method(TargetKind.RESOURCE, "uri", in_modern=False, idempotent=False),
        "resources/unsubscribe": Method(TargetKind.RESOURCE, "uri", in_modern=False, idempotent=False),
        "skills/get": Method(TargetKind.SKILL, "uri", extension=SKILLS, uris=uris.SKILL_RESULT),
        "resources/directory/read": Method(TargetKind.RESOURCE, "uri", extension=SKILLS, uris=uris.DIRECTORY_RESULT),
        "completion/complete": Method(TargetKind.REFERENCE, "ref"),
        "tasks/get": _TASK_METHOD._replace(uris=uris.TASK),
        "tasks/update": _TASK_METHOD._replace(idempotent=False),
        "tasks/cancel": _TASK_METHOD,
    }
)
"""Rows by method name."""

MCP_NAME_MEMBER: Final[Mapping[str, str]] = MappingProxyType(
    {name: row.member for name, row in METHODS.items() if row.header is HeaderRule.REQUIRED}
)
"""Member of params that `Mcp-Name` has to repeat, by method."""
NAMED_MEMBER: Final[Mapping[str, str]] = MappingProxyType(
    {name: row.member for name, row in METHODS.items() if row.header is not HeaderRule.NONE}
)
"""Member of params that `Mcp-Name` may repeat, by method; includes MCP_NAME_MEMBER."""


LISTS: Final[Mapping[str, str]] = MappingProxyType({"skills/list": SKILLS})
"""Extension of each list method; the gateway answers these methods from the catalog."""


EXTENSION_METHODS: Final = frozenset(name for name, row in METHODS.items() if row.extension)
"""Methods of extensions that name an object."""


def extension_of(method: str) -> str:
    """Return the extension that a method belongs to; empty for the core of MCP."""
    row = METHODS.get(method)
    return LISTS.get(method, "") if row is None else row.extension


def method_in_era(method: str, *, modern: bool) -> Method | None:
    """Return the row of a method; None if the method does not exist in the era."""
    row = METHODS.get(method)
    return row if row is not None and (row.in_modern if modern else row.in_legacy) else None
