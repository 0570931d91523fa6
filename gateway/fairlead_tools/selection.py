"""Selects the part of a tool's result that clients get, by a JMESPath expression (`result.select` in `spec.tools`).

Pure module. An expression is bounded before it runs: `[@, @] | [@, @] | …` doubles its input at each step, so the
number of copies that an expression can make of its input is worked out from its syntax.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc

EXPRESSION_LENGTH: Final = 1024
"""Maximum characters of an expression."""
MAX_COPIES: Final = 64
"""Maximum copies of its input that an expression may make."""
META_SELECTION: Final = "fairlead.dev/selection"
"""Member of `_meta` in a result of which the expression could not select a part: `{failed: REASON}`."""
_REASON_LENGTH: Final = 200
_SINGLE_COPY_KINDS: Final = frozenset({"field", "index", "slice", "identity", "current", "literal"})
_ADDING_KINDS: Final = frozenset(
    {"multi_select_list", "multi_select_dict", "or_expression", "and_expression", "comparator", "function_expression"}
)
_MULTIPLYING_KINDS: Final = frozenset(
    {
        "subexpression",
        "pipe",
        "index_expression",
        "projection",
        "value_projection",
        "flatten",
        "key_val_pair",
        "expref",
        "not_expression",
    }
)

_COMPLETE: Final = b'"complete"'
_decode: Final = msgspec.json.Decoder().decode


class BadJmesPath(ValueError):
    """A text is not a JMESPath expression, or not one whose cost is bounded."""


class ResultSelection(NamedTuple):
    """Selection of a part of results: the expression, and whether the tool has an `outputSchema` of the part."""

    expression: str
    declared: bool


def check_expression(expression: str) -> None:
    """Raise BadJmesPath for a text that `select` would not run."""
    _compile(expression)


def select(selection: ResultSelection, result: bytes) -> bytes:
    """The result with the selected part as its content; the same object for errors, questions and tasks.

    A result of which no part can be selected is returned whole, with META_SELECTION in its `_meta`.
    """
    try:
        members = jsonrpc.decode_object(result)
        if bytes(members.get("isError", b"")) == b"true" or bytes(members.get("resultType", _COMPLETE)) != _COMPLETE:
            return result
        blocks = msgspec.json.decode(members.get("content", b"[]"), type=list[Any])
    except jsonrpc.UNREADABLE:
        return result
    texts = [block["text"] for block in blocks if _is_text(block)]
    try:
        part = _select(selection.expression, members.get("structuredContent"), texts)
        if part is None:
            return mark(result, "the expression selects nothing of this result")
        encoded = jsonrpc.encode(part)
    except BadJmesPath as error:
        return mark(result, str(error))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError, ArithmeticError) as error:
        return mark(result, f"{type(error).__name__}: {error}")
    text = {"type": "text", "text": part if isinstance(part, str) else encoded.decode()}
    members["content"] = Raw(jsonrpc.encode([text, *(block for block in blocks if not _is_text(block))]))
    if selection.declared or "structuredContent" in members:
        members["structuredContent"] = Raw(encoded)
    return jsonrpc.encode(members)


def mark(result: bytes, reason: str) -> bytes:
    """The whole result, with the reason why no part was selected."""
    members = jsonrpc.decode_object(result)
    try:
        meta = jsonrpc.decode_object(members.get("_meta", Raw(b"{}")))
    except jsonrpc.UNREADABLE:
        return result
    members["_meta"] = Raw(jsonrpc.encode({**meta, META_SELECTION: {"failed": reason[:_REASON_LENGTH]}}))
    return jsonrpc.encode(members)


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _select(expression: str, structured_content: Raw | None, texts: list[str]) -> Any:
    """The part of structured content, or of the only text. Raises BadJmesPath and what JMESPath's functions raise."""
    compiled = _compile(expression)
    if structured_content is not None:
        return compiled.search(_decode(structured_content))
    if len(texts) != 1:
        raise BadJmesPath(f"the result has no structured content, and {len(texts)} texts instead of one that is JSON")
    try:
        document = _decode(texts[0].encode())
    except jsonrpc.UNREADABLE:
        raise BadJmesPath("the result has no structured content, and its text is not JSON") from None
    return compiled.search(document)


@lru_cache(maxsize=512)
def _compile(expression: str) -> Any:
    import jmespath  # most installations select nothing
    from jmespath.exceptions import JMESPathError
    from jmespath.functions import Functions

    if len(expression) > EXPRESSION_LENGTH:
        raise BadJmesPath(f"the expression has {len(expression)} characters; the maximum is {EXPRESSION_LENGTH}")
    try:
        compiled = jmespath.compile(expression)
        unknown_functions = sorted({*_functions(compiled.parsed)} - {*Functions.FUNCTION_TABLE})
        copies = _copies(compiled.parsed)
    except (JMESPathError, RecursionError, ValueError) as error:
        raise BadJmesPath(f"not a JMESPath expression: {' '.join(str(error).split())[:_REASON_LENGTH]}") from None
    if unknown_functions:
        raise BadJmesPath(f"JMESPath has no function {unknown_functions[0]}()")
    if copies > MAX_COPIES:
        raise BadJmesPath(f"the expression can copy its input {copies:.3g} times; the maximum is {MAX_COPIES}")
    return compiled


def _functions(node: dict[str, Any]) -> Iterator[str]:
    """Names of the functions that a node of the syntax tree calls."""
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):  # those of a slice are numbers
            yield from _functions(child)


def _copies(node: dict[str, Any]) -> float:
    """Upper bound of the copies of its input that a node of the syntax tree makes."""
    kind = node["type"]
    if kind in _SINGLE_COPY_KINDS:
        return 1
    parts = [_copies(child) for child in node["children"]]
    if kind == "filter_projection":
        left, right, condition = parts
        return left * (right + condition)
    has_applied_expression = any(child["type"] == "expref" for child in node["children"])
    if kind in _MULTIPLYING_KINDS or (kind == "function_expression" and has_applied_expression):
        return math.prod(parts)
    if kind in _ADDING_KINDS:
        return sum(parts) or 1
    raise ValueError(f"{kind} is not supported")
