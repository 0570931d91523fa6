"""Requests that the scripted Converse API rejects.

Pure module; the rules and their sources are in `request_rules`.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fairlead_formats.providers.bedrock.definition_rules import specification_faults
from fairlead_formats.providers.bedrock.request_rules import CONVERSE_RULES
from fairlead_formats.request_rules.rule import BrokenRule, SchemaCheck

_BLOCKS: Final = frozenset(
    {
        "text",
        "image",
        "document",
        "video",
        "audio",
        "toolUse",
        "toolResult",
        "guardContent",
        "cachePoint",
        "reasoningContent",
        "citationsContent",
        "searchResult",
    }
)
_IMAGES: Final = ("png", "jpeg", "gif", "webp")
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_DOCUMENT_NAME: Final = re.compile(r"(?! )(?:[A-Za-z0-9()\[\]-]| (?! )){1,200}")
_CLAUDE: Final = re.compile(r"claude|anthropic")
_MIXES_RESULTS: Final = re.compile(r"claude|anthropic|nova")
"""Models that accept results together with other blocks in one message."""
MIN_BUDGET: Final = 1024

Block = Mapping[str, Any]


def signature(number: int, thought: str) -> str:
    """Base64 signature of a thought: the number of its answer, and a digest of the number and the thought."""
    digest = hashlib.blake2b(f"converse {number} {thought}".encode(), digest_size=24).digest()
    return base64.b64encode(b"%04d" % number + digest).decode()


def fault(request: Mapping[str, Any], model: str, check_schema: SchemaCheck) -> BrokenRule | None:
    """The first rule that a request breaks; None if it breaks none."""
    return next(_faults(request, model, check_schema), None)


def _faults(request: Mapping[str, Any], model: str, check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    if "fairlead" in request:
        yield CONVERSE_RULES.broken_rule("converse-member", name="fairlead")
    messages: Sequence[Mapping[str, Any]] = request.get("messages") or []
    if not messages or messages[0].get("role") != "user":
        yield CONVERSE_RULES.broken_rule("converse-first-role")
    for previous_message, message in itertools.pairwise(messages):
        if previous_message.get("role") == message.get("role"):
            yield CONVERSE_RULES.broken_rule("converse-alternation")
    for index, block in enumerate(request.get("system") or ()):
        if block.get("text") == "":
            yield CONVERSE_RULES.broken_rule("converse-system", index=index)
    yield from _tool_faults(request.get("toolConfig"), check_schema)
    yield from _message_faults(messages, model, has_tools=bool(request.get("toolConfig")))
    yield from _document_faults(messages)
    for name in ("temperature", "topP"):
        if not 0 <= (request.get("inferenceConfig") or {}).get(name, 0) <= 1:
            yield CONVERSE_RULES.broken_rule("converse-temperature", name=name)
    yield from _field_faults(request, model)


def _tool_faults(config: Mapping[str, Any] | None, check_schema: SchemaCheck) -> Iterator[BrokenRule]:
    if config is None:
        return
    specs = [(index, tool["toolSpec"]) for index, tool in enumerate(config.get("tools") or ()) if "toolSpec" in tool]
    if not config.get("tools"):
        yield CONVERSE_RULES.broken_rule("converse-tools")
    for index, spec in specs:
        at = f"toolConfig.tools.{index}"
        if not _TOOL_NAME.fullmatch(str(spec.get("name"))):
            yield CONVERSE_RULES.broken_rule("converse-tool-name", at=f"{at}.member.toolSpec.name")
        yield from specification_faults(spec, check_schema, index)
    names = [spec.get("name") for _, spec in specs]
    choice = config.get("toolChoice")
    if choice is not None:
        (kind,) = choice if len(choice) == 1 else ("",)
        chosen_name = (choice.get("tool") or {}).get("name")
        if kind not in ("auto", "any", "tool") or (kind == "tool" and chosen_name not in names):
            yield CONVERSE_RULES.broken_rule("converse-tool-choice", choice=choice)


def _message_faults(messages: Sequence[Mapping[str, Any]], model: str, *, has_tools: bool) -> Iterator[BrokenRule]:
    call_ids: list[str] = []
    for index, message in enumerate(messages):
        at = f"messages.{index}"
        content: Sequence[Block] = message.get("content") or []
        if not content:
            yield CONVERSE_RULES.broken_rule("converse-content", at=at)
        for position, block in enumerate(content):
            yield from _block_faults(f"{at}.content.{position}", block, str(message.get("role")))
        uses = [block["toolUse"] for block in content if "toolUse" in block]
        results = [block["toolResult"] for block in content if "toolResult" in block]
        if (uses or results) and not has_tools:
            yield CONVERSE_RULES.broken_rule("converse-tool-config")
        yield from _result_faults(f"{at}.content", call_ids, [str(result.get("toolUseId")) for result in results])
        if results and len(results) < len(content) and not _MIXES_RESULTS.search(model):
            yield CONVERSE_RULES.broken_rule("converse-results-alone", at=f"{at}.content")
        call_ids = [str(use.get("toolUseId")) for use in uses]
        for ident, count in Counter(call_ids).items():
            if count > 1:
                yield CONVERSE_RULES.broken_rule("converse-call-ids-unique", at=f"{at}.content", id=ident)
    if call_ids:
        yield CONVERSE_RULES.broken_rule(
            "converse-missing-result", at=f"messages.{len(messages)}.content", ids=", ".join(call_ids)
        )


def _block_faults(at: str, block: Block, role: str) -> Iterator[BrokenRule]:
    if len(block) != 1 or not _BLOCKS.issuperset(block):
        yield CONVERSE_RULES.broken_rule("converse-block", at=at)
        return
    ((kind, value),) = block.items()
    if kind == "text" and not str(value).strip():
        yield CONVERSE_RULES.broken_rule("converse-text", at=at)
    if kind in ("image", "document") and role != "user":
        yield CONVERSE_RULES.broken_rule("converse-media-role", at=at)
    if kind == "image":
        yield from _image_faults(at, value)
    if kind == "toolUse":
        yield from _call_faults(at, value)
    if kind == "toolResult":
        if not _CALL_ID.fullmatch(str(value.get("toolUseId"))):
            yield CONVERSE_RULES.broken_rule("converse-call-id", at=f"{at}.toolResult.toolUseId")
        if value.get("status") == "error" and not value.get("content"):
            yield CONVERSE_RULES.broken_rule("converse-result-content", at=at)
        for part in value.get("content") or ():
            if "image" in part:
                yield from _image_faults(at, part["image"])
    thought = value.get("reasoningText") if kind == "reasoningContent" else None
    if thought is not None and not _is_signed(thought):
        yield CONVERSE_RULES.broken_rule("converse-thinking-signature", at=at)


def _image_faults(at: str, image: Mapping[str, Any]) -> Iterator[BrokenRule]:
    source = image.get("source") or {}
    if image.get("format") not in _IMAGES or not (source.get("bytes") or source.get("s3Location")):
        yield CONVERSE_RULES.broken_rule("converse-image", at=at)


def _call_faults(at: str, use: Mapping[str, Any]) -> Iterator[BrokenRule]:
    if not _TOOL_NAME.fullmatch(str(use.get("name"))):
        yield CONVERSE_RULES.broken_rule("converse-tool-name", at=f"{at}.member.toolUse.name")
    if not _CALL_ID.fullmatch(str(use.get("toolUseId"))):
        yield CONVERSE_RULES.broken_rule("converse-call-id", at=f"{at}.toolUse.toolUseId")
    if not isinstance(use.get("input"), dict):
        yield CONVERSE_RULES.broken_rule("converse-call-input", at=at)


def _result_faults(at: str, call_ids: Sequence[str], results: Sequence[str]) -> Iterator[BrokenRule]:
    missing = [ident for ident in call_ids if ident not in results]
    if missing:
        yield CONVERSE_RULES.broken_rule("converse-missing-result", at=at, ids=", ".join(missing))
    if set(results) - set(call_ids) or len(results) > len(set(results)):
        yield CONVERSE_RULES.broken_rule("converse-result-without-call", at=at)


def _document_faults(messages: Sequence[Mapping[str, Any]]) -> Iterator[BrokenRule]:
    names: set[str] = set()
    for index, message in enumerate(messages):
        content: Sequence[Block] = message.get("content") or []
        documents = [block["document"] for block in content if "document" in block]
        if documents and not any("text" in block for block in content):
            yield CONVERSE_RULES.broken_rule("converse-document-text", at=f"messages.{index}")
        result_parts = [part for block in content for part in (block.get("toolResult") or {}).get("content") or ()]
        for document in (*documents, *(part["document"] for part in result_parts if "document" in part)):
            name = str(document.get("name"))
            if not _DOCUMENT_NAME.fullmatch(name):
                yield CONVERSE_RULES.broken_rule("converse-document-name", at=f"messages.{index}")
            if name in names:
                yield CONVERSE_RULES.broken_rule("converse-document-names-unique")
            names.add(name)


def _field_faults(request: Mapping[str, Any], model: str) -> Iterator[BrokenRule]:
    fields = request.get("additionalModelRequestFields") or {}
    if not _CLAUDE.search(model):
        for name in sorted({"thinking", "top_k"} & fields.keys()):
            yield CONVERSE_RULES.broken_rule("converse-foreign-field", name=name)
        return
    thinking = fields.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    config = request.get("inferenceConfig") or {}
    budget = thinking.get("budget_tokens", 0)
    if budget < MIN_BUDGET or budget >= config.get("maxTokens", budget + 1):
        yield CONVERSE_RULES.broken_rule("converse-thinking-budget")
    choice = (request.get("toolConfig") or {}).get("toolChoice") or {}
    if {"any", "tool"} & choice.keys() or config.get("temperature", 1) != 1:
        yield CONVERSE_RULES.broken_rule("converse-thinking-forced")


def _is_signed(thought: Mapping[str, Any]) -> bool:
    try:
        number = int(base64.b64decode(str(thought.get("signature")), validate=True)[:4])
    except ValueError:
        return False
    return thought.get("signature") == signature(number, str(thought.get("text")))
