"""Calls that the gateway ran, as blocks `mcp_tool_use` and `mcp_tool_result`, which clients can display. Pure module.

Anthropic shows the calls of its MCP connector in these blocks (guide to the MCP connector). A prefix of the ids tells
the gateway's blocks from Anthropic's. A client may change the blocks before it returns them, so the gateway trusts them
no more than results that the client itself wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.anthropic.blocks import TOOL_USE, Block, block_of
from fairlead_formats.wire.protocol import FinishedCall, RunningCall

SERVER: Final = "fairlead"
"""Value of `server_name` in the gateway's blocks."""
_ID_PREFIX: Final = "mcptoolu_fairlead_"
_USE, _RESULT = "mcp_tool_use", "mcp_tool_result"
_IDS: Final = {_USE: "id", _RESULT: "tool_use_id"}
"""Maps the type of a block to the member that holds the id of its call."""
_encode: Final = msgspec.json.Encoder().encode


def call_blocks(calls: Sequence[FinishedCall]) -> list[bytes]:
    """Blocks `mcp_tool_use` of calls, followed by the blocks `mcp_tool_result` of their results."""
    return [*tool_use_blocks(calls), *tool_result_blocks(calls)]


def tool_use_blocks(calls: Sequence[RunningCall]) -> list[bytes]:
    """Blocks `mcp_tool_use` that show calls to the client, without their results."""
    return [
        _encode(
            {
                "type": _USE,
                "id": _ID_PREFIX + call.id,
                "name": call.name,
                "server_name": SERVER,
                "input": Raw(call.arguments),
            }
        )
        for call in calls
    ]


def tool_result_blocks(calls: Sequence[FinishedCall]) -> list[bytes]:
    """Blocks `mcp_tool_result` that show the results of calls to the client."""
    return [
        _encode(
            {
                "type": _RESULT,
                "tool_use_id": _ID_PREFIX + call.id,
                "is_error": bool(call.result.get("isError")),
                "content": _texts(call.result),
            }
        )
        for call in calls
    ]


def _texts(result: Any) -> list[dict[str, str]]:
    """Text blocks for a result. `mcp_tool_result` allows only text, so other content is named, as in `[image: …]`."""
    content = result.get("content")
    blocks = []
    for part in content if isinstance(content, list) else []:
        kind, text = part.get("type"), part.get("text")
        shown_text = text if kind == "text" else f"[{kind}: {part.get('mimeType') or part.get('uri') or 'not shown'}]"
        if shown_text:
            blocks.append({"type": "text", "text": str(shown_text)})
    return blocks


def is_gateway_block(block: Block) -> bool:
    """Whether a block shows a call or a result of the gateway."""
    member = _IDS.get(block.kind)
    return member is not None and str(block.members.get(member, "")).startswith(_ID_PREFIX)


def restore_calls(blocks: Sequence[Block]) -> dict[tuple[str, str], Block]:
    """Maps the `key` of each block of the gateway to the `tool_use` or `tool_result` block that it stands for.

    A call without its result, a result without its call, and incomplete calls are left out: the API refuses these.
    """
    uses = {
        _ident(block): block
        for block in blocks
        if is_gateway_block(block) and block.kind == _USE and _is_complete(block)
    }
    results = {_ident(block): block for block in blocks if is_gateway_block(block) and block.kind == _RESULT}
    pairs = [(uses[ident], results[ident]) for ident in uses if ident in results]
    return {key(use): _tool_use_block(use) for use, _ in pairs} | {
        key(result): _tool_result_block(result) for _, result in pairs
    }


def key(block: Block) -> tuple[str, str]:
    """Key of a block of the gateway: its type, and the id of its call."""
    return block.kind, _ident(block)


def _ident(block: Block) -> str:
    return str(block.members[_IDS[block.kind]]).removeprefix(_ID_PREFIX)


def _is_complete(block: Block) -> bool:
    return bool(isinstance(block.members.get("name"), str) and isinstance(block.members.get("input"), dict))


def _tool_use_block(block: Block) -> Block:
    members = block.members
    return block_of(
        _encode({"type": TOOL_USE, "id": _ident(block), "name": members["name"], "input": members["input"]})
    )


def _tool_result_block(block: Block) -> Block:
    members = block.members
    result_members: dict[str, Any] = {"type": "tool_result", "tool_use_id": _ident(block)}
    content = members.get("content")
    if isinstance(content, str) and content:
        result_members["content"] = content
    elif isinstance(content, list):
        result_members["content"] = [
            {"type": "text", "text": part["text"]}
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"]
        ]
    if members.get("is_error") is True:
        result_members["is_error"] = True
    return block_of(_encode(result_members))
