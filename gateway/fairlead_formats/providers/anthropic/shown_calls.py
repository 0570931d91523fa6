"""Calls that the gateway ran, shown as Anthropic shows those of its own MCP connector: blocks `mcp_tool_use` and
`mcp_tool_result`, and from these back to calls and results of a request. Pure module.

Source: Anthropic's guide to the MCP connector. The gateway's blocks are told by the beginning of their ids. What a
caller sends back may have been changed, and is trusted no further than a result that the caller wrote itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import TOOL_USE, Block, block_of
from fairlead_formats.wire.protocol import FinishedCall, RunningCall

SERVER: Final = "fairlead"
"""Name of the server in blocks."""
_OURS: Final = "mcptoolu_fairlead_"
_USE, _RESULT = "mcp_tool_use", "mcp_tool_result"
_IDS: Final = {_USE: "id", _RESULT: "tool_use_id"}
"""By type: the member with the id of the call."""
_encode: Final = msgspec.json.Encoder().encode


def call_blocks(calls: Sequence[FinishedCall]) -> list[bytes]:
    """Blocks of the calls of one round, and behind them those of their results."""
    return [*use_blocks(calls), *result_blocks(calls)]


def use_blocks(calls: Sequence[RunningCall]) -> list[bytes]:
    """Blocks of the calls of one round."""
    return [
        _encode(
            {
                "type": _USE,
                "id": _OURS + call.id,
                "name": call.name,
                "server_name": SERVER,
                "input": Raw(call.arguments),
            }
        )
        for call in calls
    ]


def result_blocks(calls: Sequence[FinishedCall]) -> list[bytes]:
    """Blocks of the results of one round."""
    return [
        _encode(
            {
                "type": _RESULT,
                "tool_use_id": _OURS + call.id,
                "is_error": bool(call.result.get("isError")),
                "content": _texts(call.result),
            }
        )
        for call in calls
    ]


def _texts(result: Any) -> list[dict[str, str]]:
    """Blocks of text, the only ones that the API has there; others are named by their kind."""
    content = result.get("content")
    blocks = []
    for part in content if isinstance(content, list) else []:
        kind, text = part.get("type"), part.get("text")
        shown = text if kind == "text" else f"[{kind}: {part.get('mimeType') or part.get('uri') or 'not shown'}]"
        if shown:
            blocks.append({"type": "text", "text": str(shown)})
    return blocks


def is_ours(block: Block) -> bool:
    """Whether a block is the call or the result of a call that the gateway ran."""
    member = _IDS.get(block.kind)
    return member is not None and str(block.members.get(member, "")).startswith(_OURS)


def restore_calls(blocks: Sequence[Block]) -> dict[tuple[str, str], Block]:
    """By the `key` of a block that the gateway wrote: the call or the result for which it stands. Calls without
    results, results without calls, and blocks that no request may hold are left out.
    """
    uses = {_ident(each): each for each in blocks if is_ours(each) and each.kind == _USE and _whole(each)}
    results = {_ident(each): each for each in blocks if is_ours(each) and each.kind == _RESULT}
    pairs = [(uses[ident], results[ident]) for ident in uses if ident in results]
    return {key(use): _use(use) for use, _ in pairs} | {key(result): _result(result) for _, result in pairs}


def key(block: Block) -> tuple[str, str]:
    """Type of a block that the gateway wrote, and the id of its call."""
    return block.kind, _ident(block)


def _ident(block: Block) -> str:
    return str(block.members[_IDS[block.kind]]).removeprefix(_OURS)


def _whole(block: Block) -> bool:
    return bool(isinstance(block.members.get("name"), str) and isinstance(block.members.get("input"), dict))


def _use(block: Block) -> Block:
    members = block.members
    return block_of(
        _encode({"type": TOOL_USE, "id": _ident(block), "name": members["name"], "input": members["input"]})
    )


def _result(block: Block) -> Block:
    members = block.members
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": _ident(block)}
    content = members.get("content")
    if isinstance(content, str) and content:
        written["content"] = content
    elif isinstance(content, list):
        written["content"] = [
            {"type": "text", "text": part["text"]}
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"]
        ]
    if members.get("is_error") is True:
        written["is_error"] = True
    return block_of(_encode(written))
