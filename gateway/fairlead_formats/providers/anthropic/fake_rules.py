"""Rules of Anthropic's Messages API for the messages of a request, as far as a loop of tools can break them. Pure
module.

Source: Anthropic's guides to tool use (results of a message's calls stand first in the next one) and to extended
thinking (blocks come back unmodified, those of one answer in one message), and its API reference.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_THINKING: Final = ("thinking", "redacted_thinking")
_MCP: Final = ("mcp_tool_use", "mcp_tool_result")
_MCP_BETA: Final = "mcp-client-"
_BLOCKS: Final = frozenset(
    {
        "text",
        "image",
        "document",
        "search_result",
        "tool_use",
        "tool_result",
        "tool_reference",
        "server_tool_use",
        "container_upload",
        *_THINKING,
        *_MCP,
    }
)


def signature(number: int, thought: str) -> str:
    """Signature of a thought in an answer: what it says, and which answer it is of."""
    digest = hashlib.blake2b(f"{number} {thought}".encode(), digest_size=24).digest()
    return base64.b64encode(b"%04d" % number + digest).decode()


def fault(request: Mapping[str, Any], headers: Mapping[str, str]) -> str | None:
    """Why the API refuses a request; None where it takes it."""
    return next(_faults(request, headers), None)


def _faults(request: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[str]:
    if "anthropic-version" not in headers:
        yield "anthropic-version: header is required"
    if "fairlead" in request:
        yield "fairlead: Extra inputs are not permitted"
    messages: Sequence[Mapping[str, Any]] = request.get("messages", [])
    contents = [_content(message) for message in messages]
    for index, content in enumerate(contents):
        at = f"messages.{index}"
        yield from _block_faults(at, content, _MCP_BETA in headers.get("anthropic-beta", ""))
        yield from _result_faults(at, content, contents[index - 1] if index else [])
        if messages[index].get("role") == "assistant":
            yield from _call_faults(at, content, contents[index + 1 : index + 2])
            yield from _thought_faults(at, content)
    if (request.get("thinking") or {}).get("type") == "enabled":
        yield from _order_faults(messages, contents)
        if (request.get("tool_choice") or {}).get("type") in ("any", "tool"):
            yield "Thinking may not be enabled when tool_choice forces tool use."


def _content(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _block_faults(at: str, content: Sequence[Mapping[str, Any]], mcp: bool) -> Iterator[str]:
    if not content:
        yield f"{at}: all messages must have non-empty content"
    for number, block in enumerate(content):
        kind = str(block.get("type"))
        if kind == "text" and not str(block.get("text")).strip():
            yield f"{at}.content.{number}: text content blocks must contain non-whitespace text"
        if kind in _MCP and not mcp:
            yield f"{at}.content.{number}: Input tag '{kind}' needs the beta of MCP connectors"
        if kind not in _BLOCKS and not kind.endswith("_tool_result"):
            yield f"{at}.content.{number}: Input tag '{kind}' does not match any of the expected tags"


def _call_faults(
    at: str, content: Sequence[Mapping[str, Any]], behind: Sequence[Sequence[Mapping[str, Any]]]
) -> Iterator[str]:
    called = {str(block["id"]) for block in content if block.get("type") == "tool_use"}
    first: set[str] = set()
    for block in behind[0] if behind else ():
        if block.get("type") != "tool_result":
            break
        first.add(str(block.get("tool_use_id")))
    if behind and called - first:
        yield (
            f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(sorted(called - first))}"
        )


def _result_faults(at: str, content: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    called = [block.get("id") for block in before if block.get("type") == "tool_use"]
    for block in content:
        if block.get("type") == "tool_result" and block.get("tool_use_id") not in called:
            yield f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {block.get('tool_use_id')}"


def _thought_faults(at: str, content: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    answers = set()
    for block in content:
        if block.get("type") != "thinking":
            continue
        try:
            number = int(base64.b64decode(str(block.get("signature")), validate=True)[:4])
        except ValueError:
            number = -1
        if block.get("signature") != signature(number, str(block.get("thinking"))):
            yield f"{at}: Invalid `signature` in `thinking` block"
        answers.add(number)
    if len(answers) > 1:
        yield (
            f"{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
            "These blocks must remain as they were in the original response."
        )


def _order_faults(
    messages: Sequence[Mapping[str, Any]], contents: Sequence[Sequence[Mapping[str, Any]]]
) -> Iterator[str]:
    """A message that calls a tool begins with what was thought, the first of a turn at least."""
    begins = True
    for message, content in zip(messages, contents, strict=True):
        calls = any(block.get("type") == "tool_use" for block in content)
        if message.get("role") == "assistant":
            if begins and calls and content[0].get("type") not in _THINKING:
                yield f"Expected `thinking` or `redacted_thinking`, but found `{content[0].get('type')}`."
            begins = False
        else:
            begins = any(block.get("type") != "tool_result" for block in content)
