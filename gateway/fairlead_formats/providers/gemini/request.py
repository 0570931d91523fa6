"""Requests of generateContent, read as raw members so that uninterpreted members reach the provider unchanged.

Pure module. Source: Google's API reference, `models.generateContent` of v1beta. Members are read in both spellings,
because Google's client mixes them in one body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.providers.gemini.parts import is_list, key_of
from fairlead_formats.providers.gemini.paths import resource_of
from fairlead_formats.providers.gemini.signatures import sign_calls
from fairlead_formats.wire.family_format import GATEWAY_MEMBER, FamilyRequest, reading_body
from fairlead_formats.wire.protocol import ModelRound
from fairlead_formats.wire.raw_json import array

_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_TOOL_CONFIG: Final = ("toolConfig", "tool_config")
_CALLING_CONFIG: Final = ("functionCallingConfig", "function_calling_config")
_ALLOWED_NAMES: Final = ("allowedFunctionNames", "allowed_function_names")
_COMBINES_TOOLS: Final = ("includeServerSideToolInvocations", "include_server_side_tool_invocations")
"""Member of the tool config that the provider requires in a request with functions and the provider's own tools."""
_SYSTEM: Final = ("systemInstruction", "system_instruction")
_CACHED_CONTENT: Final = ("cachedContent", "cached_content")
_GENERATION: Final = ("generationConfig", "generation_config")
_JSON_OUTPUT_MEMBERS: Final = (
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "response_json_schema",
    "responseFormat",
    "response_format",
)
_NO_FUNCTIONS_WITH_JSON: Final = re.compile(r"(?:^|/)gemini-[12](?:[.-]|$)")
"""Models that refuse functions together with JSON output."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
_NULL: Final = Raw(b"null")


class GeminiRequest(FamilyRequest):
    """A client's request."""

    def __init__(self, body: bytes, model: str, stream: bool) -> None:
        """`model` and `stream` come from the path. Raises BadRequest."""
        with reading_body():
            self._members = _members(body)
            self.gateway_options = self._members.pop(GATEWAY_MEMBER, Raw(b"{}"))
            self._decoded_members = {
                spellings[0]: _decode(self._members.get(key_of(self._members, *spellings), _NULL))
                for spellings in (("tools",), _TOOL_CONFIG, _GENERATION)
            }
            contents = self._members.get("contents")
            messages = _raws(contents) if contents is not None and is_list(contents) else ()
            tools = self._members.get("tools")
            self._tools = _raws(tools) if tools is not None and is_list(tools) else []
        self._take_messages(messages, "contents")
        self.model = model
        self.stream = stream
        declarations = [member(tool, *_DECLARATIONS) for tool in items(self._decoded_members["tools"])]
        self.tool_names = frozenset(
            text_of(member(function, "name")) for functions in declarations for function in items(functions)
        )
        self.no_injection = not self._accepts_functions()

    @property
    def system(self) -> bytes:
        return bytes(self._members.get(key_of(self._members, *_SYSTEM), _NULL))

    def body(self, model_round: ModelRound) -> bytes:
        members = dict(self._members)
        if "model" in members:
            members["model"] = Raw(_encode(resource_of(model_round.model)))
        members["contents"] = Raw(array(sign_calls([*self.messages, *model_round.added_messages], model_round.model)))
        if model_round.injected_tools:
            members["tools"] = Raw(array(self._add_functions(model_round.injected_tools)))
        if model_round.forbids_calls and (model_round.injected_tools or self.tool_names):
            self._set_mode(members, "NONE")
        elif not model_round.sends_forced_choice and self._mode == "ANY":
            self._set_mode(
                members, "VALIDATED" if self._allows_provider_tools else "AUTO"
            )  # the API refuses AUTO together with the provider's own tools
        return _encode(members)

    def _add_functions(self, functions: Sequence[bytes]) -> list[Raw]:
        """The tools with further functions. These join the client's functions, because the API refuses two entries of
        functions.
        """
        tools = list(self._tools)
        for index, tool in enumerate(items(self._decoded_members["tools"])):
            if items(member(tool, *_DECLARATIONS)):
                entry = _members(tools[index])
                name = key_of(entry, *_DECLARATIONS)
                entry[name] = Raw(array([*_raws(entry[name]), *functions]))
                tools[index] = Raw(_encode(entry))
                return tools
        return [*tools, Raw(_encode({_DECLARATIONS[0]: Raw(array(functions))}))]

    def _set_mode(self, members: dict[str, Raw], mode: str) -> None:
        """Set the mode of function calling, without the list of allowed names, which the API refuses in these modes."""
        config_name = key_of(members, *_TOOL_CONFIG)
        config = _object_members(members.get(config_name))
        calling_name = key_of(config, *_CALLING_CONFIG)
        calling_config = {
            name: raw for name, raw in _object_members(config.get(calling_name)).items() if name not in _ALLOWED_NAMES
        }
        config[calling_name] = Raw(_encode({**calling_config, "mode": mode}))
        members[config_name] = Raw(_encode(config))

    @property
    def _calling_config(self) -> Any:
        return member(self._decoded_members[_TOOL_CONFIG[0]], *_CALLING_CONFIG)

    @property
    def _mode(self) -> str:
        return text_of(member(self._calling_config, "mode")).upper()

    @property
    def _allows_provider_tools(self) -> bool:
        return member(self._decoded_members[_TOOL_CONFIG[0]], *_COMBINES_TOOLS) is True

    def _accepts_functions(self) -> bool:
        """Whether the provider accepts functions together with the other members of this request. Otherwise added
        functions would make the provider refuse the whole request.
        """
        if any(self._members.get(name, _NULL) != _NULL for name in _CACHED_CONTENT):
            return False  # the cached content has the tools, and the API refuses further tools in the request
        if member(self._calling_config, "streamFunctionCallArguments", "stream_function_call_arguments"):
            return False  # the gateway does not assemble streamed arguments of this API
        has_other_tools = any(
            set(_as_object(tool)) - {*_DECLARATIONS} for tool in items(self._decoded_members["tools"])
        )
        if has_other_tools and not self.tool_names and not self._allows_provider_tools:
            return False
        config = self._decoded_members[_GENERATION[0]]
        if (member(config, "candidateCount", "candidate_count") or 1) != 1:
            return False
        modes = items(member(config, "responseModalities", "response_modalities"))
        if any(text_of(mode).upper() != "TEXT" for mode in modes):
            return False
        mime = text_of(member(config, "responseMimeType", "response_mime_type"))
        wants_json = mime.endswith("json") or member(config, *_JSON_OUTPUT_MEMBERS) is not None
        return not (wants_json and not self.tool_names and _NO_FUNCTIONS_WITH_JSON.search(self.model))


def _object_members(raw: Raw | None) -> dict[str, Raw]:
    """Members of a JSON object; empty for any other JSON."""
    return _members(raw) if raw is not None and bytes(raw)[:1] == b"{" else {}


def _as_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
