"""Declaration of a custom tool: the decorator `tool`, and `CustomTool`, which holds all of it.

Nothing is looked at here: `tools` does when the tool is taken in, so that one broken tool leaves the others of
its module alone, and an import stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar, overload

import msgspec

P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "__fairlead_tool__"


class CustomTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool. Without `input_schema`, name, description and schema come from the handler: its name, docstring and
    type hints, and it is called with keyword arguments. With one, it is called with one dictionary of the arguments.
    """

    handler: Callable[..., Any]
    """A function, or an `async` one. Functions run in a thread each, of a bounded number."""
    name: str | None = None
    """By default the handler's."""
    description: str | None = None
    """By default the handler's docstring, up to its sections."""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of an object."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of the structured result; by default of the return type, where that is a class with members."""
    title: str | None = None
    annotations: Mapping[str, Any] | None = None
    """MCP's hints, such as `{"readOnlyHint": True}`."""
    meta: Mapping[str, Any] | None = None
    """`_meta` of the definition, passed on as it is."""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    estimated_duration_ms: int | None = None
    """Expected duration of a call, until enough of them are measured."""
    max_duration_ms: int | None = None
    """After that a call is given up."""
    idempotent: bool | None = None
    """Whether a call may be repeated after a failure."""
    cacheable_seconds: int | None = None
    """How long a result may be used again for equal arguments."""
    min_tier: str | None = None
    """The fastest latency tier that shows it, however fast it is."""
    result_tokens: int | None = None
    """Tokens of a result; a longer one is kept, and its caller gets a part."""


@overload
def tool(handler: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Any] | None = None,
    title: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    tags: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    estimated_duration_ms: int | None = None,
    max_duration_ms: int | None = None,
    idempotent: bool | None = None,
    cacheable_seconds: int | None = None,
    min_tier: str | None = None,
    result_tokens: int | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(handler: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Mark a function as a tool, as `@tool` or `@tool(tags=("crm",))`; it stays the function that it was.

    The keywords are the members of `CustomTool`. Raises TypeError for another one.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _MARK, CustomTool(handler=function, **options))
        return function

    return mark if handler is None else mark(handler)


def find_marked(thing: object) -> CustomTool | None:
    """Declaration that `tool` left at a function; None for anything else."""
    mark = getattr(thing, "__dict__", {}).get(_MARK)
    return mark if isinstance(mark, CustomTool) else None
