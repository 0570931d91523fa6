"""Malformed results of tools: each member of a result and of its blocks is left out or has another type.

for given in CORPUS:          # results, as JSON values
    assert refusals(made, "2025-11-25") == []     # by the specification's own schema
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

ERAS: Final = ("2025-11-25", "2026-07-28")
PIXEL: Final = "iVBORw0KGgo="
_ANNOTATIONS: Final = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-02T03:04:05Z"}
_META: Final = {"example.org/a": 1}
BLOCKS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "text", "text": "a text", "annotations": _ANNOTATIONS, "_meta": _META},
    {"type": "image", "data": PIXEL, "mimeType": "image/png", "annotations": _ANNOTATIONS, "_meta": _META},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": _ANNOTATIONS, "_meta": _META},
    {
        "type": "resource_link",
        "name": "n",
        "uri": "test://a/b",
        "title": "t",
        "description": "d",
        "size": 7,
        "mimeType": "text/plain",
        "icons": [{"src": "test://i", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}],
        "annotations": _ANNOTATIONS,
        "_meta": _META,
    },
    {
        "type": "resource",
        "resource": {"uri": "test://a", "mimeType": "text/plain", "text": "x", "_meta": _META},
        "annotations": _ANNOTATIONS,
        "_meta": _META,
    },
    {"type": "resource", "resource": {"uri": "test://a", "mimeType": "image/png", "blob": PIXEL, "_meta": _META}},
)
RESULT_META: Final = {
    "example.org/a": 1,
    "progressToken": 1,
    "io.modelcontextprotocol/related-task": {"taskId": "t"},
    "io.modelcontextprotocol/serverInfo": {
        "name": "n",
        "version": "1",
        "title": "t",
        "description": "d",
        "websiteUrl": "https://example.org",
        "icons": [{"src": "https://example.org/i"}],
    },
}
WHOLE: Final = {
    "content": [{"type": "text", "text": "a text"}],
    "structuredContent": {"a": 1},
    "isError": False,
    "resultType": "complete",
    "_meta": RESULT_META,
}
LEFT_OUT: Final = object()
ODD: Final[tuple[Any, ...]] = (
    LEFT_OUT,
    None,
    0,
    -1,
    2.5,
    2**70,
    True,
    "",
    "x",
    "user",
    "not base64!",
    "/no/uri",
    [],
    [None],
    ["x"],
    [[]],
    [{}],
    {},
    {"x": None},
    {"a": {"b": [1, None]}},
    "\x1b[31m",
    "é",
)
UNKNOWN: Final[tuple[Any, ...]] = (
    {"type": "video", "data": PIXEL, "mimeType": "video/mp4"},
    {"type": "tool_use", "id": "1", "name": "n", "input": {}},
    {"type": "TEXT", "text": "x"},
    {"text": "x"},
    {"type": None, "text": "x"},
    {"type": ["text"], "text": "x"},
    {"type": "image", "data": f"data:image/png;base64,{PIXEL}"},
    {"type": "image", "data": PIXEL.rstrip("="), "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "relative", "text": "x"}},
    {"type": "resource_link", "uri": "http://", "name": "x"},
)


def corpus() -> Iterator[dict[str, Any]]:
    """Results, most of which are invalid in one member."""
    yield copy.deepcopy(WHOLE)
    yield {}
    for odd in variants(WHOLE):
        yield odd
        if isinstance(odd, dict):
            for name in ("content", "structuredContent"):
                yield {member: value for member, value in odd.items() if member != name}
    good = {"type": "text", "text": "beside it"}
    for block in BLOCKS:
        yield {"content": [block]}
        for odd in variants(block):
            yield {"content": [odd, good], "structuredContent": {"a": 1}}
    for odd in (*ODD[1:], *UNKNOWN):
        yield {"content": [good, odd]}
        yield {"content": odd}
    yield {"toolResult": "of 2024-10-07"}


def variants(value: Any) -> Iterator[Any]:
    """The value with each of its parts, at any depth, removed or replaced."""
    for path in _paths(value):
        for odd in ODD:
            made = copy.deepcopy(value)
            *above, last = path
            parent = made
            for step in above:
                parent = parent[step]
            if odd is LEFT_OUT:
                del parent[last]
            else:
                parent[last] = odd
            yield made


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from _paths(part, (*path, key))


CORPUS: Final = tuple(json.loads(text) for text in dict.fromkeys(map(json.dumps, corpus())))

_GOLDEN: Final = Path(__file__).parents[1] / "golden" / "results"
_JUDGES: Final = {
    (era, kind): jsonschema_rs.Draft202012Validator(
        {**json.loads((_GOLDEN / f"{era}.json").read_text()), "$ref": f"#/$defs/{kind}"}
    )
    for era in ERAS
    for kind in ("CallToolResult", "GetPromptResult", "ReadResourceResult", "CompleteResult")
}


def refusals(result: Any, era: str, kind: str = "CallToolResult") -> list[str]:
    """Errors of a result according to the schema of an era."""
    return [f"{error.instance_path}: {error.message}"[:300] for error in _JUDGES[era, kind].iter_errors(result)]
