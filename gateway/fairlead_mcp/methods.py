"""Requests that name a tool, prompt, resource, task or skill of a server: one row a method, extensions included.

Pure module. Everything that routes, checks or rewrites such a request reads these rows; a method without one is not
passed on, for it could name what its caller may not see. A new extension is a row more (SEP-2133).
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
    """Object of a server that a request names."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"
    REFERENCE = "reference"
    """A prompt or a resource template, by `ref` of a completion."""
    TASK = "task"
    SKILL = "skill"


class HeaderRule(Enum):
    """Whether `Mcp-Name` repeats the name (SEP-2243, SEP-2663)."""

    NONE = "none"
    CHECKED = "checked"
    """Has to match where it is sent: clients are known that leave it out."""
    REQUIRED = "required"


class Method(NamedTuple):
    """A row of the table."""

    kind: TargetKind
    member: str
    """Member of `params` that names the object."""
    header: HeaderRule = HeaderRule.NONE
    extension: str = ""
    """Extension that the method belongs to; empty for the core of MCP."""
    needs_declaration: bool = False
    """Whether each request has to declare the extension (-32021)."""
    in_legacy: bool = True
    """Whether clients of 2025-11-25 and before have it."""
    in_modern: bool = True
    """Whether clients of 2026-07-28 and later have it."""
    idempotent: bool = True
    """Whether it may be sent again although the server may have got it."""
    uris: uris.Places = MappingProxyType({})
    """Where its result names resources of the server."""


_OF_TASKS: Final = Method(TargetKind.TASK, "taskId", HeaderRule.CHECKED, TASKS, needs_declaration=True, in_legacy=False)
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
        "tasks/get": _OF_TASKS._replace(uris=uris.TASK),
        "tasks/update": _OF_TASKS._replace(idempotent=False),
        "tasks/cancel": _OF_TASKS,
    }
)
"""By name of the method."""

MCP_NAME_MEMBER: Final[Mapping[str, str]] = MappingProxyType(
    {name: row.member for name, row in METHODS.items() if row.header is HeaderRule.REQUIRED}
)
"""Method to the member of its params that `Mcp-Name` has to repeat."""
NAMED_MEMBER: Final[Mapping[str, str]] = MappingProxyType(
    {name: row.member for name, row in METHODS.items() if row.header is not HeaderRule.NONE}
)
"""Method to the member of its params that clients name in `Mcp-Name`, whether or not servers insist."""


LISTS: Final[Mapping[str, str]] = MappingProxyType({"skills/list": SKILLS})
"""Methods of extensions that list something, which is answered from what servers listed before."""


EXTENDED: Final = frozenset(name for name, row in METHODS.items() if row.extension)
"""Methods of extensions that name an object."""


def extension_of(method: str) -> str:
    """Extension that a method belongs to; empty for the core of MCP."""
    row = METHODS.get(method)
    return LISTS.get(method, "") if row is None else row.extension


def method_in_era(method: str, *, modern: bool) -> Method | None:
    """The row of a method, where clients of that era have it."""
    row = METHODS.get(method)
    return row if row is not None and (row.in_modern if modern else row.in_legacy) else None
