"""`fairlead call`: one call of a tool, with arguments converted to the types in its schema."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

import msgspec

from fairlead_api.documents.servers import ON_THE_WAY
from fairlead_cli.calling.key_value_arguments import BadArgument, check_known, check_required, parse_arguments
from fairlead_cli.calling.tools import SUGGESTS, definition_of, list_tools, schema_of, unknown_tool_failure
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import FAILED, USAGE_ERROR, Failure
from fairlead_cli.hidden_tools import why_hidden
from fairlead_cli.output import Output, printable, remark
from fairlead_cli.rest import ManagementClient
from fairlead_cli.servers.starting import Server, lines_about, may_have_tool, servers_of, wait_for
from fairlead_cli.wording import with_advice, with_tools_hint
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import INVALID_PARAMS
from fairlead_mcp.session import McpSession
from fairlead_tools.refusal import CONNECTION_LOST, INVALID_ARGUMENTS, META_WARNING, STARTING
from fairlead_tools.selection import META_SELECTION

UNKNOWN: Final = re.compile(r"(?i)unknown tool|not found")
"""Matches the error messages of servers for an unknown tool."""
UNREADY_ENDINGS: Final = ("says why", "is offline")
"""Endings of a gateway's refusals to call a server that is not ready."""
META_ERROR: Final = "fairlead.dev/error"
"""Member of `_meta` in which a gateway says why it refused a call."""


def run_call(destination: Destination, tool: str, words: Sequence[str], arguments: str | None, output: Output) -> None:
    """Call `tool` and print its result. Raises Failure, also for a result that is an error."""
    if arguments is not None and words:
        raise Failure("give either KEY=VALUE words or --arguments, not both", code=USAGE_ERROR)
    words_or_arguments = words if arguments is None else _parse_object(arguments)
    result = _CallAttempts(_ToolOfGateway(destination, tool), words_or_arguments).result()
    if output is Output.json:
        sys.stdout.write(result.decode() + "\n")
    decoded = msgspec.json.decode(result)
    is_error = isinstance(decoded, dict) and decoded.get("isError") is True
    if output is Output.table and not is_error:
        print(text_of(decoded))
        for line in remarks_of(decoded):
            remark("call", line)
    if is_error:
        refusal = _with_reason(refusal_of(decoded), destination, tool)
        is_invalid = refusal is not None and refusal.startswith(f"{INVALID_ARGUMENTS}: ")
        raise Failure(
            refusal or f"{tool} reports an error: {text_of(decoded)}", code=USAGE_ERROR if is_invalid else FAILED
        )


def _with_reason(refusal: str | None, destination: Destination, tool: str) -> str | None:
    """The text of a refusal. If the tool's server cannot be reached, its state as in `fairlead servers` replaces it."""
    if refusal is None or not refusal.startswith(f"{CONNECTION_LOST}: ") or not refusal.endswith(UNREADY_ENDINGS):
        return refusal
    lines = lines_about(server for server in servers_of(destination) if may_have_tool(server, tool))
    return f"{CONNECTION_LOST}: {'; '.join(lines)}" if lines else refusal


class _MissingTool(Failure):
    """The tool is not listed."""


class _ToolOfGateway(NamedTuple):
    """A tool by the name that the user gave; it may not be listed yet."""

    destination: Destination
    name: str

    def servers(self) -> list[Server]:
        """Servers that may have the tool, judging by its name. Raises Failure."""
        return [server for server in servers_of(self.destination) if may_have_tool(server, self.name)]

    def may_be_starting(self) -> bool:
        """Whether a server that may have the tool is still starting. Raises Failure."""
        return any(server.get("state") in ON_THE_WAY for server in self.servers())

    def wait(self, seconds: float) -> bool:
        """Print that the tool's server is starting, and wait. Returns False if no server is starting, or on timeout.
        Raises Failure.
        """
        return wait_for(self.destination, seconds, lambda server: may_have_tool(server, self.name))

    async def call(self, session: McpSession, words_or_arguments: Sequence[str] | dict[str, Any]) -> bytes:
        """Result of a call; `words_or_arguments` is a list of KEY=VALUE words, or the arguments. Raises Failure,
        McpError."""
        definitions, hidden = await list_tools(session, self.destination.timeout)
        definition = definition_of(definitions, self.name)
        if definition is None:
            await self._check_unlisted(definitions, hidden)
        schema = schema_of(definition or await asyncio.to_thread(_definition_by_id, self.destination, self.name))
        arguments = self._arguments(words_or_arguments, schema)
        try:
            return bytes(await session.call_tool(self.name, arguments, timeout=self.destination.timeout))
        except RpcError as error:
            if definition is not None or error.code != INVALID_PARAMS or not UNKNOWN.search(error.message):
                raise
            if SUGGESTS in error.message:
                # a gateway knows names that its list does not have, such as the server's own name of a renamed tool
                raise _MissingTool(printable(with_tools_hint(error.message)), code=USAGE_ERROR) from error
            raise _MissingTool(str(unknown_tool_failure(self.name, definitions)), code=USAGE_ERROR) from error

    async def _check_unlisted(self, definitions: list[dict[str, Any]], hidden: Any) -> None:
        """Raises Failure if the tool is hidden, or if its server is starting and its arguments are therefore
        unknown.
        """
        if (why := why_hidden(hidden, self.name)) is not None:
            raise Failure(f"OVER_BUDGET: {why}")
        if await asyncio.to_thread(self.may_be_starting):
            raise _MissingTool(str(unknown_tool_failure(self.name, definitions)), code=USAGE_ERROR)

    def _arguments(self, words_or_arguments: Sequence[str] | dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        try:
            if isinstance(words_or_arguments, dict):
                check_known(words_or_arguments, schema, strictly=False)
                return words_or_arguments
            arguments = parse_arguments(words_or_arguments, schema)
            check_known(arguments, schema, strictly=True)
            check_required(arguments, schema)
        except BadArgument as error:
            raise Failure(with_advice(f"{self.name}: {error}", "Nothing was called."), code=USAGE_ERROR) from error
        return arguments


class _CallAttempts:
    """Attempts of one call: while the tool's server is starting, waits and calls again."""

    def __init__(self, tool: _ToolOfGateway, words_or_arguments: Sequence[str] | dict[str, Any]) -> None:
        self._tool = tool
        self._words_or_arguments = words_or_arguments
        self._end = time.monotonic() + tool.destination.timeout
        self._may_retry = True
        """Whether one more attempt is allowed although no server is starting: the server may have become ready after
        the last attempt and before its state was read.
        """

    def result(self) -> bytes:
        """Result of the last attempt. Raises Failure."""
        while True:
            try:
                result = self._tool.destination.run(lambda session: self._tool.call(session, self._words_or_arguments))
            except _MissingTool as error:
                self._wait_for_list(error)
            except Failure as error:
                self._check_failed(error)
            else:
                if not _is_starting(result) or time.monotonic() >= self._end or not self._should_retry(self._wait()):
                    return result

    def _wait(self) -> bool:
        return self._tool.wait(self._end - time.monotonic())

    def _should_retry(self, has_waited: bool) -> bool:
        """Whether to call again: each time after waiting for a server, and a single time without waiting."""
        may_retry, self._may_retry = self._may_retry, self._may_retry and has_waited
        return has_waited or may_retry

    def _wait_for_list(self, unlisted: _MissingTool) -> None:
        """Wait until the tool is listed. Raises `unlisted` if no server may list it, and Failure if its server
        failed.
        """
        has_waited = self._wait()
        servers = self._tool.servers()
        for line in lines_about(servers):
            raise Failure(line) from None
        if not (has_waited or (servers and self._may_retry)):
            raise unlisted
        # One more attempt is enough: either the tool was listed after the last attempt, or the server does not have it
        self._may_retry = False

    def _check_failed(self, error: Failure) -> NoReturn:
        """Raises the failure; if the tool's server is starting, with the server's state as its message."""
        servers = self._tool.servers() if error.code != USAGE_ERROR else []
        if any(server.get("state") in ON_THE_WAY for server in servers):
            raise Failure("; ".join(lines_about(servers))) from None
        raise error


def _is_starting(result: bytes) -> bool:
    """Whether the result is the gateway's refusal because the server is starting."""
    try:
        return bool(msgspec.json.decode(result)["_meta"][META_ERROR]["code"] == STARTING)
    except (msgspec.DecodeError, KeyError, TypeError):
        return False


def refusal_of(result: Any) -> str | None:
    """The gateway's own refusal as a line with its code; None for a result of the tool itself."""
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return None
    lines = str(error.get("message", "")).split("\n")
    text = f"{printable(error['code'])}: " + "\n".join(printable(line) for line in lines)
    wait_ms = error.get("retryAfterMs")
    return f"{text} (try again in {wait_ms / 1000:g} s)" if isinstance(wait_ms, int) else text


def remarks_of(result: Any) -> Iterator[str]:
    """Sentences of the gateway about a result that does not fit the tool's `outputSchema` or `result.select`."""
    meta = result.get("_meta") if isinstance(result, dict) else None
    members = meta if isinstance(meta, dict) else {}
    for name, member in ((META_WARNING, "message"), (META_SELECTION, "failed")):
        note = members.get(name)
        if isinstance(note, dict) and isinstance(note.get(member), str):
            yield note[member] if name == META_WARNING else f"this is the whole result: {note[member]}"


def text_of(result: Any) -> str:
    """A result of `tools/call` as text: its text content, and a placeholder for other content."""
    if not isinstance(result, dict):
        return json.dumps(result, ensure_ascii=False)
    content = result.get("content")
    parts = [_part(item) for item in content] if isinstance(content, list) else []
    if not parts and "structuredContent" in result:
        parts = [json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)]
    if not parts:
        return "(the result is empty)"
    return "\n".join("\n".join(printable(line) for line in part.split("\n")) for part in parts)


def _decoded_length(base64: str) -> int:
    """Decoded length of base64 data, in bytes."""
    return len(base64.rstrip("=")) * 3 // 4


def _part(item: Any) -> str:
    if not isinstance(item, dict):
        return json.dumps(item, ensure_ascii=False)
    kind = item.get("type")
    if kind == "text" and isinstance(item.get("text"), str):
        return str(item["text"])
    if kind in ("image", "audio"):
        return f"({kind}, {item.get('mimeType', 'unknown type')}, {_decoded_length(str(item.get('data', '')))} bytes)"
    if kind == "resource_link":
        return f"({item.get('name', 'resource')}: {item.get('uri', '')})"
    resource = item.get("resource")
    if kind == "resource" and isinstance(resource, dict):
        text = resource.get("text")
        if isinstance(text, str):
            return text
        size = f"{_decoded_length(str(resource.get('blob', '')))} bytes"
        return f"({resource.get('uri', 'resource')}, {resource.get('mimeType', 'unknown type')}, {size})"
    return json.dumps(item, ensure_ascii=False)


def _definition_by_id(destination: Destination, tool: str) -> dict[str, Any] | None:
    """Definition of a tool that is given by its id (`mcp.SERVER.TOOL`), from the REST API; None if there is none."""
    if not tool.startswith("mcp."):
        return None
    try:
        document = ManagementClient.of(destination).get(f"/v1/tools/{quote(tool, safe='')}")
        definition = document["definition"]
    except (Failure, KeyError, TypeError):
        return None
    return definition if isinstance(definition, dict) else None


def _parse_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise Failure(f"--arguments is not JSON: {error}", code=USAGE_ERROR) from error
    if not isinstance(value, dict):
        raise Failure('--arguments must be a JSON object, such as \'{"item": "rope"}\'', code=USAGE_ERROR)
    return value
