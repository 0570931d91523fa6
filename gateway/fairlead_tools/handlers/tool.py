"""Declaration of custom tools: the decorator `tool` and the struct `CustomTool`.

The decorator only stores the declaration. The gateway validates it when it registers the tool, so that an invalid tool
does not affect the other tools of its module, and importing the module is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar, overload

import msgspec

P = ParamSpec("P")
R = TypeVar("R")

_MARK: Final = "__fairlead_tool__"


class CustomTool(msgspec.Struct, frozen=True, kw_only=True):
    """Custom tool.

    Without `input_schema` the definition is derived from the handler's name, docstring and type hints, and the handler
    is called with keyword arguments. With `input_schema`, the handler is called with one dictionary of the arguments.
    """

    handler: Callable[..., Any]
    """A function, which runs in a thread, or an `async` function, which runs in the event loop."""
    name: str | None = None
    """Name of the tool; by default the handler's name."""
    description: str | None = None
    """Description of the tool; by default the handler's docstring without its sections."""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments, with `"type": "object"`."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of the structured result; by default the schema of the handler's return type, if that is a class with
    members."""
    title: str | None = None
    annotations: Mapping[str, Any] | None = None
    """MCP's annotations, such as `{"readOnlyHint": True}`."""
    meta: Mapping[str, Any] | None = None
    """`_meta` of the definition, passed on unchanged."""
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    estimated_duration_ms: int | None = None
    """Expected duration of a call in milliseconds, which counts until enough calls are measured."""
    max_duration_ms: int | None = None
    """Time limit of a call in milliseconds."""
    idempotent: bool | None = None
    """Whether a call may be repeated after a failure."""
    cacheable_seconds: int | None = None
    """Seconds for which a result may be reused for equal arguments."""
    min_tier: str | None = None
    """Fastest latency tier that lists the tool, even if the tool is fast enough for a faster tier."""
    result_tokens: int | None = None
    """Maximum number of tokens of a result. A longer result is stored, and the caller gets its beginning."""


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
    """Mark a function as a custom tool, by `@tool` or `@tool(tags=("crm",))`. Returns the function unchanged.

    The keywords are the members of `CustomTool`; any other keyword raises TypeError.
    """

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _MARK, CustomTool(handler=function, **options))
        return function

    return mark if handler is None else mark(handler)


def find_marked(thing: object) -> CustomTool | None:
    """Return the declaration that `tool` attached to a function; None for other objects."""
    mark = getattr(thing, "__dict__", {}).get(_MARK)
    return mark if isinstance(mark, CustomTool) else None
