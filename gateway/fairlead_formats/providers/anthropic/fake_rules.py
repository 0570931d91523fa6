"""Requests that the scripted Messages API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.anthropic.definition_rules import definition_faults
from fairlead_formats.providers.anthropic.request_rules import MESSAGES_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

_THINKING_BLOCKS: Final = ("thinking", "redacted_thinking")
_MCP_BLOCKS: Final = ("mcp_tool_use", "mcp_tool_result")
_MCP_BETA: Final = "mcp-client-"
_THREADS_BETA: Final = "message-threads-"
_THREAD_MEMBERS: Final = ("system", "tools")
"""Members that a thread takes from its first request; requests that continue the thread may not have them."""
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
        *_THINKING_BLOCKS,
        *_MCP_BLOCKS,
    }
)
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
MAX_BREAKPOINTS: Final = 4
MIN_BUDGET: Final = 1024

Block = Mapping[str, Any]


def signature(number: int, thought: str) -> str:
    """Base64 signature of a thought: the number of its answer, and a digest of the number and the thought."""
    digest = hashlib.blake2b(f"{number} {thought}".encode(), digest_size=24).digest()
    return base64.b64encode(b"%04d" % number + digest).decode()


class MessageThreads:
    """Conversations by the id of their last answer."""

    def __init__(self) -> None:
        self._requests: dict[str, Mapping[str, Any]] = {}

    def store(self, request: Mapping[str, Any], ident: str, content: Sequence[Block]) -> None:
        """Store the conversation of a request with its answer, under the answer's id, if the request has a `thread`."""
        if request.get("thread") is not None:
            full_request = self.with_thread(request)
            answer = {"role": "assistant", "content": [*content]}
            self._requests[ident] = {**full_request, "messages": [*full_request["messages"], answer]}

    def with_thread(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The request with the messages, tools and system prompt of the thread that it continues."""
        stored = self._requests.get(str((request.get("thread") or {}).get("previous_message_id")), {})
        thread_members = {name: stored[name] for name in _THREAD_MEMBERS if name in stored}
        return {**request, **thread_members, "messages": [*stored.get("messages", ()), *request.get("messages", ())]}

    def faults(self, request: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[BrokenRule]:
        """Rules about threads that the request breaks."""
        thread = request.get("thread") or {}
        if thread and _THREADS_BETA not in headers.get("anthropic-beta", ""):
            yield MESSAGES_RULES.broken_rule("messages-thread-beta")
        if thread.get("type") == "continue":
            if thread["previous_message_id"] not in self._requests:
                yield MESSAGES_RULES.broken_rule("messages-thread", id=thread["previous_message_id"])
            for name in _THREAD_MEMBERS:
                if name in request:
                    yield MESSAGES_RULES.broken_rule("messages-thread-fields", name=name)


def fault(
    request: Mapping[str, Any], headers: Mapping[str, str], check_schema: SchemaCheck, *, counts: bool = False
) -> BrokenRule | None:
    """The first rule that a request breaks; None if it breaks none. `counts`: the request only counts tokens."""
    return next(_faults(request, headers, check_schema, counts), None)


def _faults(
    request: Mapping[str, Any], headers: Mapping[str, str], check_schema: SchemaCheck, counts: bool
) -> Iterator[BrokenRule]:
    if "anthropic-version" not in headers:
        yield MESSAGES_RULES.broken_rule("messages-version")
    if "fairlead" in request:
        yield MESSAGES_RULES.broken_rule("messages-member", name="fairlead")
    if request.get("max_tokens") is None and not counts:
        yield MESSAGES_RULES.broken_rule("messages-max-tokens")
    messages: Sequence[Mapping[str, Any]] = request.get("messages", [])
    contents = [_content(message) for message in messages]
    yield from _role_faults(messages)
    yield from _tool_faults(request, check_schema)
    yield from _cache_faults(request, contents)
    yield from _id_faults(contents)
    for index, content in enumerate(contents):
        at = f"messages.{index}"
        yield from _block_faults(at, content, _MCP_BETA in headers.get("anthropic-beta", ""))
        yield from _result_faults(at, content, contents[index - 1] if index else [])
        if messages[index].get("role") == "assistant":
            yield from _call_faults(at, content, contents[index + 1 : index + 2])
            yield from _signature_faults(at, content)
    if messages and messages[-1].get("role") == "assistant":
        last_block = contents[-1][-1] if contents[-1] else {}
        last_text = str(last_block.get("text"))
        if last_block.get("type") == "text" and last_text != last_text.rstrip():
            yield MESSAGES_RULES.broken_rule("messages-trailing-space")
    yield from _thinking_faults(request, messages, contents)


def _content(message: Mapping[str, Any]) -> list[Block]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _role_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[BrokenRule]:
    """Faults in the roles of messages. The API merges consecutive messages of one role, so roles need not alternate."""
    if not messages:
        yield MESSAGES_RULES.broken_rule("messages-empty")
        return
    for message in messages:
        if message.get("role") not in ("user", "assistant", "system"):
            yield MESSAGES_RULES.broken_rule("messages-role", role=message.get("role"))
    if messages[0].get("role") != "user":
        yield MESSAGES_RULES.broken_rule("messages-first-role")


def _tool_faults(request: Mapping[str, Any], check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    tools: Sequence[Mapping[str, Any]] = request.get("tools") or ()
    names = Counter(str(tool.get("name")) for tool in tools if "name" in tool)
    for index, tool in enumerate(tools):
        if tool.get("type") in (None, "custom"):
            if not _TOOL_NAME.fullmatch(str(tool.get("name"))):
                yield MESSAGES_RULES.broken_rule("messages-tool-name", index=index)
            yield from definition_faults(tool, check_schema, index)
    if names and max(names.values()) > 1:
        yield MESSAGES_RULES.broken_rule("messages-tool-names-unique")
    choice = request.get("tool_choice") or {}
    if choice and not tools:
        yield MESSAGES_RULES.broken_rule("messages-choice-without-tools")
    elif choice.get("type") == "tool" and choice.get("name") not in names:
        yield MESSAGES_RULES.broken_rule("messages-tool-choice", name=choice.get("name"))


def _cache_faults(request: Mapping[str, Any], contents: Sequence[Sequence[Block]]) -> Iterator[BrokenRule]:
    system = request.get("system")
    blocks: list[Any] = [request, *(request.get("tools") or ()), *(system if isinstance(system, list) else ())]
    for content in contents:
        for block in content:
            inner = block.get("content") if block.get("type") == "tool_result" else None
            blocks += [block, *(inner if isinstance(inner, list) else ())]
    count = sum(block.get("cache_control") is not None for block in blocks)
    if count > MAX_BREAKPOINTS:
        yield MESSAGES_RULES.broken_rule("messages-cache-control", count=count)
    for number, content in enumerate(contents):
        for position, block in enumerate(content):
            if block.get("type") in _THINKING_BLOCKS and block.get("cache_control") is not None:
                yield MESSAGES_RULES.broken_rule("messages-thinking-cached", at=f"messages.{number}.content.{position}")


def _id_faults(contents: Sequence[Sequence[Block]]) -> Iterator[BrokenRule]:
    calls: set[str] = set()
    for number, content in enumerate(contents):
        results: set[str] = set()
        for position, block in enumerate(content):
            at = f"messages.{number}.content.{position}"
            if block.get("type") == "tool_use":
                ident = str(block.get("id"))
                if not _CALL_ID.fullmatch(ident):
                    yield MESSAGES_RULES.broken_rule("messages-call-id", at=at)
                if ident in calls:
                    yield MESSAGES_RULES.broken_rule("messages-call-ids-unique", at=at)
                if not isinstance(block.get("input"), dict):
                    yield MESSAGES_RULES.broken_rule("messages-call-input", at=at)
                calls.add(ident)
            elif block.get("type") == "tool_result":
                ident = str(block.get("tool_use_id"))
                if not _CALL_ID.fullmatch(ident):
                    yield MESSAGES_RULES.broken_rule("messages-result-id", at=at)
                if ident in results:
                    yield MESSAGES_RULES.broken_rule("messages-single-result", at=at, id=ident)
                results.add(ident)


def _block_faults(at: str, content: Sequence[Block], has_mcp_beta: bool) -> Iterator[BrokenRule]:
    if not content:
        yield MESSAGES_RULES.broken_rule("messages-content", at=at)
    for number, block in enumerate(content):
        kind = str(block.get("type"))
        if kind == "text" and not str(block.get("text")).strip():
            yield MESSAGES_RULES.broken_rule("messages-text", at=f"{at}.content.{number}")
        if kind in _MCP_BLOCKS and not has_mcp_beta:
            yield MESSAGES_RULES.broken_rule("messages-mcp-block", at=f"{at}.content.{number}", kind=kind)
        if kind not in _BLOCKS and not kind.endswith("_tool_result"):
            yield MESSAGES_RULES.broken_rule("messages-block", at=f"{at}.content.{number}", kind=kind)


def _call_faults(at: str, content: Sequence[Block], next_contents: Sequence[Sequence[Block]]) -> Iterator[BrokenRule]:
    call_ids = {str(block["id"]) for block in content if block.get("type") == "tool_use"}
    result_ids: set[str] = set()
    for block in next_contents[0] if next_contents else ():
        if block.get("type") != "tool_result":
            break
        result_ids.add(str(block.get("tool_use_id")))
    if next_contents and call_ids - result_ids:
        yield MESSAGES_RULES.broken_rule("messages-missing-result", at=at, ids=", ".join(sorted(call_ids - result_ids)))


def _result_faults(at: str, content: Sequence[Block], previous_content: Sequence[Block]) -> Iterator[BrokenRule]:
    call_ids = [block.get("id") for block in previous_content if block.get("type") == "tool_use"]
    for block in content:
        if block.get("type") == "tool_result" and block.get("tool_use_id") not in call_ids:
            yield MESSAGES_RULES.broken_rule("messages-result-without-call", at=at, id=block.get("tool_use_id"))


def _signature_faults(at: str, content: Sequence[Block]) -> Iterator[BrokenRule]:
    answers = set()
    for block in content:
        if block.get("type") != "thinking":
            continue
        try:
            number = int(base64.b64decode(str(block.get("signature")), validate=True)[:4])
        except ValueError:
            number = -1
        if block.get("signature") != signature(number, str(block.get("thinking"))):
            yield MESSAGES_RULES.broken_rule("messages-thinking-signature", at=at)
        answers.add(number)
    if len(answers) > 1:
        yield MESSAGES_RULES.broken_rule("messages-thinking-modified", at=at)


def _thinking_faults(
    request: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], contents: Sequence[Sequence[Block]]
) -> Iterator[BrokenRule]:
    thinking = request.get("thinking") or {}
    if thinking.get("type") not in ("enabled", "adaptive"):
        return
    if request.get("temperature") not in (None, 1):
        yield MESSAGES_RULES.broken_rule("messages-thinking-temperature")
    if thinking["type"] != "enabled":
        return
    if thinking.get("budget_tokens", 0) < MIN_BUDGET:
        yield MESSAGES_RULES.broken_rule("messages-thinking-budget")
    if request.get("max_tokens") is not None and request["max_tokens"] <= thinking.get("budget_tokens", 0):
        yield MESSAGES_RULES.broken_rule("messages-thinking-max-tokens")
    yield from _order_faults(messages, contents)
    if (request.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield MESSAGES_RULES.broken_rule("messages-thinking-forced")


def _order_faults(messages: Sequence[Mapping[str, Any]], contents: Sequence[Sequence[Block]]) -> Iterator[BrokenRule]:
    """Fault of the last turn if its first message calls a tool but does not begin with thinking. Earlier turns may lack
    their thinking.
    """
    turn_start: int | None = None
    for index, (message, content) in enumerate(zip(messages, contents, strict=True)):
        if message.get("role") != "assistant":
            turn_start = turn_start if all(block.get("type") == "tool_result" for block in content) else None
        elif turn_start is None:
            turn_start = index
    if turn_start is None or not any(block.get("type") == "tool_use" for block in contents[turn_start]):
        return
    kind = contents[turn_start][0].get("type")
    if kind not in _THINKING_BLOCKS:
        yield MESSAGES_RULES.broken_rule("messages-thinking-first", at=f"messages.{turn_start}", kind=kind)
