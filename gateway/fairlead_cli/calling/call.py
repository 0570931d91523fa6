"""`fairlead call`: one call, its arguments typed by the tool's own schema."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

import msgspec

from fairlead_api.documents.servers import ON_THE_WAY
from fairlead_cli.calling.arguments import BadArgument, check_known, check_required, parse_arguments
from fairlead_cli.calling.tools import definition_of, list_tools, schema_of, unknown
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import FAILED, USED_WRONGLY, Failure
from fairlead_cli.hidden_tools import why_hidden
from fairlead_cli.output import Output, printable
from fairlead_cli.rest import Plane
from fairlead_cli.servers.starting import Server, has_tool, lines_about, servers_of, wait_for
from fairlead_cli.wording import after
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import INVALID_PARAMS
from fairlead_mcp.session import McpSession
from fairlead_tools.refusal import CONNECTION_LOST, INVALID_ARGUMENTS, STARTING

UNKNOWN: Final = re.compile(r"(?i)unknown tool|not found")
"""In what servers say of a tool that they do not have."""
AWAY: Final = ("says why", "is offline")
"""Ends of refusals of a gateway to call a server that is not ready."""
META_ERROR: Final = "fairlead.dev/error"
"""Member of `_meta` under which a gateway says why a known tool did not answer."""


def run_call(destination: Destination, tool: str, words: Sequence[str], arguments: str | None, output: Output) -> None:
    """Call `tool` and print its result. Ends the process with 1 when the result is an error. Raises Failure."""
    if arguments is not None and words:
        raise Failure("give either KEY=VALUE words or --arguments, not both", code=USED_WRONGLY)
    given = words if arguments is None else _object(arguments)
    result = _CallAttempts(_ToolOfGateway(destination, tool), given).result()
    if output is Output.json:
        sys.stdout.write(result.decode() + "\n")
    decoded = msgspec.json.decode(result)
    failed = isinstance(decoded, dict) and decoded.get("isError") is True
    if output is Output.table and not failed:
        print(text_of(decoded))
    if failed:
        refusal = _with_reason(refusal_of(decoded), destination, tool)
        wrong = refusal is not None and refusal.startswith(f"{INVALID_ARGUMENTS}: ")
        raise Failure(refusal or f"{tool} reports an error: {text_of(decoded)}", code=USED_WRONGLY if wrong else FAILED)


def _with_reason(refusal: str | None, destination: Destination, tool: str) -> str | None:
    """A refusal of a call whose server is away, with what `fairlead servers` says of that server instead."""
    if refusal is None or not refusal.startswith(f"{CONNECTION_LOST}: ") or not refusal.endswith(AWAY):
        return refusal
    own = lines_about(server for server in servers_of(destination) if has_tool(server, tool))
    return f"{CONNECTION_LOST}: {'; '.join(own)}" if own else refusal


class _Unlisted(Failure):
    """No tool of that name is listed."""


class _ToolOfGateway(NamedTuple):
    """A tool by the name that somebody gave, which may not be listed yet."""

    destination: Destination
    name: str

    def servers(self) -> list[Server]:
        """Servers that may have it, by their names. Raises Failure."""
        return [server for server in servers_of(self.destination) if has_tool(server, self.name)]

    def may_come(self) -> bool:
        """Whether a server that still starts may have it. Raises Failure."""
        return any(server.get("state") in ON_THE_WAY for server in self.servers())

    def wait(self, seconds: float) -> bool:
        """Say that a server of it starts, and wait; False where none does, or not in time. Raises Failure."""
        return wait_for(self.destination, seconds, lambda server: has_tool(server, self.name))

    async def call(self, session: McpSession, given: Sequence[str] | dict[str, Any]) -> bytes:
        """Result of a call with the words KEY=VALUE, or with the arguments. Raises Failure, McpError."""
        definitions, hidden = await list_tools(session, self.destination.timeout)
        definition = definition_of(definitions, self.name)
        if definition is None:
            await self._check_unlisted(definitions, hidden)
        schema = schema_of(definition or await asyncio.to_thread(_of_id, self.destination, self.name))
        arguments = self._arguments(given, schema)
        try:
            return bytes(await session.call_tool(self.name, arguments, timeout=self.destination.timeout))
        except RpcError as error:
            if definition is not None or error.code != INVALID_PARAMS or not UNKNOWN.search(error.message):
                raise
            raise _Unlisted(str(unknown(self.name, definitions)), code=USED_WRONGLY) from error

    async def _check_unlisted(self, definitions: list[dict[str, Any]], hidden: Any) -> None:
        """Raises Failure where the tool is hidden, or may come with a server: its arguments are not known yet."""
        if (why := why_hidden(hidden, self.name)) is not None:
            raise Failure(f"OVER_BUDGET: {why}")
        if await asyncio.to_thread(self.may_come):
            raise _Unlisted(str(unknown(self.name, definitions)), code=USED_WRONGLY)

    def _arguments(self, given: Sequence[str] | dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        try:
            if isinstance(given, dict):
                check_known(given, schema, strictly=False)
                return given
            arguments = parse_arguments(given, schema)
            check_known(arguments, schema, strictly=True)
            check_required(arguments, schema)
        except BadArgument as error:
            raise Failure(after(f"{self.name}: {error}", "Nothing was called."), code=USED_WRONGLY) from error
        return arguments


class _CallAttempts:
    """Makes a call; where the tool's server still starts, says so, waits, and makes it again."""

    def __init__(self, tool: _ToolOfGateway, given: Sequence[str] | dict[str, Any]) -> None:
        self._tool = tool
        self._given = given
        self._end = time.monotonic() + tool.destination.timeout
        self._again = True
        """Whether it may be made once more without a server to wait for, which came between two looks."""

    def result(self) -> bytes:
        """Result of the last attempt. Raises Failure."""
        while True:
            try:
                result = self._tool.destination.run(lambda session: self._tool.call(session, self._given))
            except _Unlisted as error:
                self._wait_for_list(error)
            except Failure as error:
                self._check_failed(error)
            else:
                if not _starts(result) or time.monotonic() >= self._end or not self._goes_on(self._wait()):
                    return result

    def _wait(self) -> bool:
        return self._tool.wait(self._end - time.monotonic())

    def _goes_on(self, waited: bool) -> bool:
        """Whether another attempt is worth it; without a server to wait for, one is."""
        once_more, self._again = self._again, self._again and waited
        return waited or once_more

    def _wait_for_list(self, unlisted: _Unlisted) -> None:
        """Wait until the tool is listed. Raises the failure where it will not be, another where its server failed."""
        waited = self._wait()
        own = self._tool.servers()
        for line in lines_about(own):
            raise Failure(line) from None
        if not (waited or (own and self._again)):
            raise unlisted
        self._again = False  # it was listed between the two looks, or it is not its tool

    def _check_failed(self, error: Failure) -> NoReturn:
        """Raises the failure, or what the tool's server says where it is still on its way."""
        own = self._tool.servers() if error.code != USED_WRONGLY else []
        if any(server.get("state") in ON_THE_WAY for server in own):
            raise Failure("; ".join(lines_about(own))) from None
        raise error


def _starts(result: bytes) -> bool:
    """Whether it is the gateway's refusal because the server starts."""
    try:
        return bool(msgspec.json.decode(result)["_meta"][META_ERROR]["code"] == STARTING)
    except (msgspec.DecodeError, KeyError, TypeError):
        return False


def refusal_of(result: Any) -> str | None:
    """The gateway's own refusal as a line with its code; None for what the tool itself says."""
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return None
    lines = str(error.get("message", "")).split("\n")
    text = f"{printable(error['code'])}: " + "\n".join(printable(line) for line in lines)
    after = error.get("retryAfterMs")
    return f"{text} (try again in {after / 1000:g} s)" if isinstance(after, int) else text


def text_of(result: Any) -> str:
    """A result of `tools/call` for people: its texts, and a word for what is not text."""
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
    """Bytes that are written so."""
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
        return text if isinstance(text, str) else f"({resource.get('uri', 'resource')})"
    return json.dumps(item, ensure_ascii=False)


def _of_id(destination: Destination, tool: str) -> dict[str, Any] | None:
    """The definition of a tool by its id (`mcp.SERVER.TOOL`), which no list has. None where there is none."""
    if not tool.startswith("mcp."):
        return None
    try:
        document = Plane.of(destination).get(f"/v1/tools/{quote(tool, safe='')}")
        definition = document["definition"]
    except (Failure, KeyError, TypeError):
        return None
    return definition if isinstance(definition, dict) else None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as error:
        raise Failure(f"--arguments is not JSON: {error}", code=USED_WRONGLY) from error
    if not isinstance(value, dict):
        raise Failure('--arguments must be a JSON object, such as \'{"item": "rope"}\'', code=USED_WRONGLY)
    return value
