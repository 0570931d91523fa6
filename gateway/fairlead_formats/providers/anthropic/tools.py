"""Tools, calls and results of Anthropic Messages: `tool_use` blocks, and `tool_result` blocks in one user message.

Pure module. A call is `{type: tool_use, id, name, input: object}`, a result `{type: tool_result, tool_use_id, content:
[text, image, document], is_error?}`. The results of a message's calls are at the beginning of the next message. Calls
that the provider runs (`server_tool_use`, `mcp_tool_use`) are not read as calls. Streams consist of
`content_block_start {index, content_block: {type: tool_use, id, name, input}}`, `content_block_delta {index, delta:
{type: input_json_delta, partial_json}}` and `content_block_stop {index}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fairlead_formats.messages.base import (
    BLOCK,
    SERVER_TOOL,
    TEXT,
    THINKING,
    AnswerPart,
    Answers,
    MessageFormat,
    Part,
    call_part,
    extras,
    with_paths,
)
from fairlead_formats.messages.call import (
    Carry,
    Draft,
    ModelCall,
    ToolResult,
    fitting_id,
    items,
    member,
    name_for,
    text_of,
    truncates,
)
from fairlead_formats.messages.content import (
    MEGABYTE,
    PDF,
    WEB_IMAGES,
    Body,
    LossReport,
    Media,
    Text,
    accept_types,
    json_text,
    report_structured,
)
from fairlead_formats.messages.reading import json_text_block, media_block, result_of
from fairlead_formats.messages.streams import Assembler, BlockAssembler, PartialCall, event_of
from fairlead_formats.names import Names
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.anthropic.definition_rules import definition_faults
from fairlead_formats.request_rules.definitions import rejection_by
from fairlead_formats.schema import rules
from fairlead_formats.tool_format import JsonObject, Options
from fairlead_formats.tools.definitions import Envelope, FormatLimits, Parts, ProviderTool, Targets, ToolFormat
from fairlead_formats.tools.envelopes import lost_settings, not_a_function_error, rename_tool, tools_of, tools_request

ANTHROPIC: Final = "anthropic"
MAX_IMAGE: Final = 5 * MEGABYTE
"""Maximum number of bytes of an image or document that the gateway sends."""
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,256}\Z")


def _write_tool(parts: Parts) -> JsonObject:
    out: JsonObject = {"name": ""}
    if parts.description:
        out["description"] = parts.description
    out["input_schema"] = parts.schema
    if parts.strict:
        out["strict"] = True
    return out


def _read_tool(tool: JsonObject) -> ProviderTool:
    if tool.get("type") not in (None, "custom"):
        raise not_a_function_error(tool)
    losses = lost_settings(tool, {"name", "description", "input_schema", "type"})
    return ProviderTool(tool.get("name"), tool.get("description"), tool.get("input_schema"), losses=losses)


class AnthropicMessages(MessageFormat):
    """Reads and writes calls and results in Anthropic's messages."""

    def parts(self, message: object) -> Iterator[Part]:
        """Parts of a message or of a list of blocks. A response has the form of a message."""
        content = message if isinstance(message, list) else member(message, "content")
        if isinstance(content, str):
            yield Part("/content", TEXT, text_of(content))
            return
        path = "" if isinstance(message, list) else "/content"
        for block_path, block in with_paths(path, items(content)) or [("", message)]:
            yield _part(block, block_path)

    def assembler(self, names: Names | None = None) -> Assembler:
        return AnthropicAssembler(names)

    def write_id(self, ident: str) -> str:
        return fitting_id(ident, _ID)

    def request_messages(self, message: object) -> list[JsonObject]:
        content = message if isinstance(message, list) else member(message, "content")
        return [{"role": "assistant", "content": content}] if content else []

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        blocks: list[JsonObject] = [{"type": "text", "text": text}] if text.strip() else []
        blocks += [
            {"type": "tool_use", "id": self.write_id(call.id), "name": name_for(call, names), "input": call.arguments}
            for call in calls
            if call.valid
        ]
        return [{"role": "assistant", "content": blocks}] if blocks else []

    def write_answers(self, answers: Answers, carry: Carry) -> Iterable[JsonObject]:
        accept = accept_types(
            WEB_IMAGES if carry.images else (), (PDF,) if carry.documents else (), max_bytes=MAX_IMAGE
        )
        blocks = []
        for call, body, report in answers.bodies(accept):
            block: JsonObject = {"type": "tool_result", "tool_use_id": self.write_id(call.id)}
            content = _content(body, report)
            if content:
                block["content"] = content
            if body.is_error:
                block["is_error"] = True
            blocks.append(block)
        return [{"role": "user", "content": blocks}] if blocks else []

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        block: Any
        for path, message in with_paths("", items(messages)) or [("", messages)]:
            for block_path, block in with_paths(f"{path}/content", items(member(message, "content"))) or [
                (path, message)
            ]:
                if member(block, "type") != "tool_result":
                    yield AnswerPart(block_path)
                    continue
                content = [_block(part) for part in _parts(block.get("content"))]
                result = result_of(content, is_error=block.get("is_error") is True)
                extra_names = extras(block, "type", "tool_use_id", "content", "is_error")
                yield AnswerPart(block_path, ToolResult(text_of(block.get("tool_use_id")), "", result), extra_names)


def _part(block: object, path: str) -> Part:
    kind = text_of(member(block, "type"))
    if kind == "tool_use":
        draft = Draft(member(block, "id"), member(block, "name"), member(block, "input"))
        return call_part(path, draft, extras(block, "type", "id", "name", "input"))
    if kind == "text":
        return Part(path, TEXT, text_of(member(block, "text")), extras=extras(block, "type", "text"))
    if kind in ("thinking", "redacted_thinking"):
        return Part(path, THINKING)
    return Part(path, SERVER_TOOL if kind.endswith(("_tool_use", "_tool_result")) else BLOCK)


def _content(body: Body, report: LossReport) -> list[JsonObject]:
    """Blocks of a result, without empty texts, which the provider refuses."""
    content = [_write_block(block) for block in body.blocks if not (isinstance(block, Text) and not block.text)]
    if body.structured is not None and not body.structured_in_text:
        content.append({"type": "text", "text": json_text(body.structured)})
    report_structured(body, report)
    return content


def _write_block(block: Text | Media) -> JsonObject:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    source = {"type": "base64", "media_type": block.mime, "data": block.data}
    return {"type": "document" if block.mime == PDF else "image", "source": source}


def _parts(content: object) -> list[object]:
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def _block(part: object) -> JsonObject:
    kind = member(part, "type")
    if kind == "text":
        return json_text_block(member(part, "text") or "")
    source = member(part, "source")
    if kind in ("image", "document") and member(source, "type") == "base64":
        return media_block(text_of(member(source, "media_type")), member(source, "data"))
    return json_text_block(part)


class AnthropicAssembler(BlockAssembler):
    """Assembles calls of Anthropic Messages."""

    def feed(self, event: object) -> list[ModelCall]:
        event = event_of(event)
        kind, index = member(event, "type"), member(event, "index")
        if kind == "message_delta":
            reason = member(member(event, "delta"), "stop_reason")
            return [] if reason is None else self._release(truncated=truncates(reason))
        if kind == "message_stop":
            return self.close()
        if not isinstance(index, int):
            return []
        if kind == "content_block_start":
            return self._start(index, _tool_use(member(event, "content_block")))
        if kind == "content_block_delta":
            return self._append_piece(index, member(member(event, "delta"), "partial_json"))
        return self._stop(index) if kind == "content_block_stop" else []


def _tool_use(block: object) -> PartialCall | None:
    if member(block, "type") != "tool_use":
        return None
    partial = PartialCall(member(block, "id"), member(block, "name"))
    partial.whole = member(block, "input")
    return partial


def _targets(options: Options) -> Targets:
    return rules.ANTHROPIC, rules.ANTHROPIC_STRICT if options.strict else None


FORMATS: Final = (
    ProviderFormat(
        tools=ToolFormat(
            ANTHROPIC,
            "Anthropic Messages",
            ("claude", "anthropic-messages", "messages"),
            Envelope(_write_tool, rename_tool, _read_tool, tools_request, tools_of),
            _targets,
            FormatLimits(max_strict=20),
            rejection_by(definition_faults),
        ),
        messages=AnthropicMessages(),
        token_growth=1020,
        families=("claude-3", "claude-4", "claude-4.7"),
    ),
)
