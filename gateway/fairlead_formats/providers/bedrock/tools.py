"""Tools, calls and results of Bedrock Converse: `toolUse` blocks, and `toolResult` blocks in one user message.

Pure module. A call is `{toolUse: {toolUseId, name, input}}`, a result `{toolResult: {toolUseId, content: [text, json,
image, document], status?}}` (botocore `bedrock-runtime`). Bytes are base64, as in the HTTP API; `with_bytes` decodes
them for boto3. Streams consist of `{contentBlockStart: {contentBlockIndex, start: {toolUse: {toolUseId, name}}}}`,
`{contentBlockDelta: {…, delta: {toolUse: {input}}}}` and `{contentBlockStop: {…}}`.
"""

from __future__ import annotations

import binascii
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
    accept_types,
    mark_error,
    report_repeated,
)
from fairlead_formats.messages.reading import json_text_block, media_block, result_of
from fairlead_formats.messages.streams import Assembler, BlockAssembler, PartialCall, event_of
from fairlead_formats.names import Names
from fairlead_formats.provider import ProviderFormat
from fairlead_formats.providers.bedrock.definition_rules import definition_faults
from fairlead_formats.request_rules.definitions import rejection_by
from fairlead_formats.schema import rules
from fairlead_formats.schema.convert import UnusableSchema
from fairlead_formats.tool_format import Action, JsonObject, Options
from fairlead_formats.tools.definitions import (
    Envelope,
    FormatLimits,
    NotAFunction,
    Parts,
    ProviderTool,
    Targets,
    ToolFormat,
)
from fairlead_formats.tools.envelopes import lost_settings, tools_of

BEDROCK: Final = "bedrock-converse"
"""Name of the format."""
MAX_IMAGE: Final = 15 * MEGABYTE // 4
"""Maximum number of bytes of an image that the API accepts: 3.75 MiB."""
_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}\Z")
_CLAUDE: Final = re.compile(r"claude|anthropic", re.IGNORECASE)
_FORBIDDEN_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9 ()\[\]-]+")


def _write_tool(parts: Parts) -> JsonObject:
    spec: JsonObject = {"name": "", "description": parts.description, "inputSchema": {"json": parts.schema}}
    if parts.strict:
        spec["strict"] = True
    return {"toolSpec": spec}


def _name_tool(tool: JsonObject, name: str) -> JsonObject:
    return {"toolSpec": {**tool["toolSpec"], "name": name}}


def _read_tool(tool: JsonObject) -> ProviderTool:
    spec = tool.get("toolSpec")
    if not isinstance(spec, dict):
        raise NotAFunction("the tool has no toolSpec: it is the provider's own, not a function")
    schema = spec.get("inputSchema")
    if schema is not None and not isinstance(schema, dict):
        raise UnusableSchema("inputSchema is not an object")
    losses = lost_settings(spec, {"name", "description", "inputSchema"}, "/toolSpec") + lost_settings(
        tool, {"toolSpec"}
    )
    return ProviderTool(spec.get("name"), spec.get("description"), (schema or {}).get("json"), losses=losses)


def _unpack(payload: Any) -> list[Any]:
    if isinstance(payload, dict) and isinstance(payload.get("toolConfig"), dict):
        payload = payload["toolConfig"]
    return tools_of(payload)


class BedrockMessages(MessageFormat):
    """Reads and writes calls and results in messages of Bedrock Converse."""

    def parts(self, message: object) -> Iterator[Part]:
        """Parts of a response, of its `output`, of a message, or of a list of blocks."""
        path, inner = _inner(message)
        blocks = (
            with_paths(path, inner)
            if isinstance(inner, list)
            else with_paths(f"{path}/content", items(member(inner, "content")))
        )
        for block_path, block in blocks or [(path, inner)]:
            yield _part(block, block_path)

    def assembler(self, names: Names | None = None) -> Assembler:
        return BedrockAssembler(names)

    def write_id(self, ident: str) -> str:
        return fitting_id(ident, _ID)

    def request_messages(self, message: object) -> list[JsonObject]:
        inner = _inner(message)[1]
        content = inner if isinstance(inner, list) else member(inner, "content")
        return [{"role": "assistant", "content": content}] if content else []

    def write_calls(self, calls: Sequence[ModelCall], names: Names | None = None, text: str = "") -> list[JsonObject]:
        blocks: list[JsonObject] = [{"text": text}] if text.strip() else []
        blocks += [
            {"toolUse": {"toolUseId": self.write_id(call.id), "name": name_for(call, names), "input": call.arguments}}
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
            tool_result: JsonObject = {"toolUseId": self.write_id(call.id), "content": _content(body, report, carry)}
            if body.is_error and carry.status:
                tool_result["status"] = "error"
            blocks.append({"toolResult": tool_result})
        return [{"role": "user", "content": blocks}] if blocks else []

    def answers(self, messages: object) -> Iterator[AnswerPart]:
        for path, message in with_paths("", items(messages)) or [("", messages)]:
            for block_path, block in with_paths(f"{path}/content", items(member(message, "content"))) or [
                (path, message)
            ]:
                result = member(block, "toolResult")
                if isinstance(result, dict):
                    extra_names = extras(result, "toolUseId", "content", "status", "type")
                    yield AnswerPart(
                        block_path, ToolResult(text_of(result.get("toolUseId")), "", _result(result)), extra_names
                    )
                else:
                    yield AnswerPart(block_path)


def _inner(message: object) -> tuple[str, Any]:
    """The message in a response or in its `output`: its JSON Pointer, and the message."""
    output = member(message, "output")
    path, message = ("/output", output) if output else ("", message)
    inner = member(message, "message")
    return (f"{path}/message", inner) if inner else (path, message)


def _part(block: object, path: str) -> Part:
    use, text = member(block, "toolUse"), member(block, "text")
    if member(use, "type") == "server_tool_use" or member(block, "toolResult") is not None:
        return Part(path, SERVER_TOOL)
    if use is not None:
        draft = Draft(member(use, "toolUseId"), member(use, "name"), member(use, "input"))
        return call_part(path, draft, extras(use, "toolUseId", "name", "input"))
    if isinstance(text, str):
        return Part(path, TEXT, text_of(text), extras=extras(block, "text"))
    return Part(path, THINKING if member(block, "reasoningContent") is not None else BLOCK)


def with_bytes(message: JsonObject) -> JsonObject:
    """A message with decoded bytes of images and documents, as boto3 requires."""
    return {key: _with_bytes(value) for key, value in message.items()}


def _with_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"bytes"} and isinstance(value["bytes"], str):
        return {"bytes": binascii.a2b_base64(value["bytes"])}
    return {key: inner if key == "json" else _with_bytes(inner) for key, inner in value.items()}


def _content(body: Body, report: LossReport, carry: Carry) -> list[JsonObject]:
    """Content of a `toolResult`: at least one block, and no empty blocks. Text that repeats structured content is left
    out.
    """
    content: list[JsonObject] = []
    report_repeated(body, report)
    for block in body.blocks:
        if isinstance(block, Media):
            content.append(_media(block, len(content)))
        elif block.text and block.path != body.repeated_path:
            content.append({"text": block.text})
    if body.structured is not None:
        content.append({"json": _json(body.structured, report)})
    if body.is_error and not carry.status:
        content.insert(0, {"text": mark_error("", body, report).strip()})
    if not content:
        report.add("/content", "text", Action.REWRITTEN, "the format does not accept an empty result")
    return content or [{"text": "(no output)"}]


def _json(value: Any, report: LossReport) -> Any:
    if isinstance(value, dict):
        return value
    why = "models accept only an object, so the value is its member `output`"
    report.add("/structuredContent", "structuredContent", Action.REWRITTEN, why)
    return {"output": value}


def document_name(name: str, position: int) -> str:
    """The name with only those characters that the API accepts in names of documents. A document without a name is
    named after its `position`.
    """
    return _FORBIDDEN_IN_NAMES.sub(" ", name).strip()[:200] or f"file {position}"


def _media(item: Media, position: int) -> JsonObject:
    source = {"bytes": item.data}
    if item.mime == PDF:
        name = document_name(item.uri.rsplit("/", 1)[-1], position)
        return {"document": {"format": "pdf", "name": name, "source": source}}
    return {"image": {"format": item.mime.removeprefix("image/"), "source": source}}


def _result(result: JsonObject) -> JsonObject:
    blocks: list[JsonObject] = []
    structured: Any = None
    for part in items(result.get("content")):
        media = member(part, "image", "document")
        if member(part, "text") is not None:
            blocks.append(json_text_block(part["text"]))
        elif member(part, "json") is not None and structured is None:
            structured = part["json"]
        elif media is not None:
            family = "image" if "image" in part else "application"
            mime = f"{family}/{text_of(member(media, 'format'))}"
            blocks.append(media_block(mime, member(member(media, "source"), "bytes")))
        else:
            blocks.append(json_text_block(part))
    return result_of(blocks, is_error=result.get("status") == "error", structured=structured)


class BedrockAssembler(BlockAssembler):
    """Assembles calls of Bedrock ConverseStream."""

    def feed(self, event: object) -> list[ModelCall]:
        event = event_of(event)
        stop = member(event, "messageStop")
        if stop is not None:
            return [*self._release(truncated=truncates(member(stop, "stopReason"))), *self.close()]
        for kind in ("contentBlockStart", "contentBlockDelta", "contentBlockStop"):
            block = member(event, kind)
            index = member(block, "contentBlockIndex")
            if not isinstance(index, int):
                continue
            if kind == "contentBlockStart":
                use = member(member(block, "start"), "toolUse")
                partial = None if use is None else PartialCall(member(use, "toolUseId"), member(use, "name"))
                return self._start(index, partial)
            if kind == "contentBlockDelta":
                return self._append_piece(index, member(member(member(block, "delta"), "toolUse"), "input"))
            return self._stop(index)
        return []


def _targets(options: Options) -> Targets:
    """JSON Schema keywords that a model accepts. Only Claude supports strict schemas and `$ref`."""
    if _CLAUDE.search(options.model or ""):
        return rules.BEDROCK_CLAUDE, rules.BEDROCK_STRICT if options.strict else None
    return rules.BEDROCK, None


FORMATS: Final = (
    ProviderFormat(
        tools=ToolFormat(
            BEDROCK,
            "Amazon Bedrock Converse",
            ("bedrock", "converse", "aws-bedrock"),
            Envelope(
                _write_tool,
                _name_tool,
                _read_tool,
                lambda tools: {"toolConfig": {"tools": tools}} if tools else {},
                _unpack,
            ),
            _targets,
            FormatLimits(needs_description=True),
            rejection_by(definition_faults),
        ),
        messages=BedrockMessages(),
        token_growth=1030,
    ),
)
