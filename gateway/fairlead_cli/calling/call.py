"""`fairlead call`: one call, its arguments typed by the tool's own schema."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from fairlead_api.documents.servers import ON_THE_WAY
from fairlead_cli.calling.arguments import BadArgument, check_known, check_required, parse_arguments
from fairlead_cli.calling.tools import definition_of, listed, schema_of, unknown
from fairlead_cli.connecting import Destination
from fairlead_cli.failure import FAILED, USED_WRONGLY, Failure
from fairlead_cli.hidden_tools import why_hidden
from fairlead_cli.output import Output, printable
from fairlead_cli.rest import Plane
from fairlead_cli.servers.starting import has_tool, lines_about, servers_of, wait_for
from fairlead_cli.wording import after
from fairlead_mcp.errors import RpcError
from fairlead_mcp.jsonrpc import INVALID_PARAMS
from fairlead_mcp.session import McpSession
from fairlead_tools.refusal import CONNECTION_LOST, INVALID_ARGUMENTS, STARTING

UNKNOWN: Final = re.compile(r"(?i)unknown tool|not found")
"""In what servers say of a tool that they do not have."""
META_ERROR: Final = "fairlead.dev/error"
"""Member of `_meta` under which a gateway says why a known tool did not answer."""


def run_call(destination: Destination, tool: str, words: Sequence[str], arguments: str | None, output: Output) -> None:
    """Call `tool` and print its result. Ends the process with 1 when the result is an error. Raises Failure."""
    if arguments is not None and words:
        raise Failure("give either KEY=VALUE words or --arguments, not both", code=USED_WRONGLY)
    given = None if arguments is None else _object(arguments)

    async def work(session: McpSession) -> bytes:
        definitions, hidden = await listed(session, destination.timeout)
        found = definition_of(definitions, tool)
        why = why_hidden(hidden, tool) if found is None else None
        if why is not None:
            raise Failure(f"OVER_BUDGET: {why}")
        if found is None and await asyncio.to_thread(_may_come, destination, tool):
            raise _Unlisted(str(unknown(tool, definitions)), code=USED_WRONGLY)  # its arguments are not known yet
        schema = schema_of(found or await asyncio.to_thread(_of_id, destination, tool))
        try:
            prepared = parse_arguments(words, schema) if given is None else given
            check_known(prepared, schema, strictly=given is None)
            if given is None:
                check_required(prepared, schema)
        except BadArgument as error:
            raise Failure(after(f"{tool}: {error}", "Nothing was called."), code=USED_WRONGLY) from error
        try:
            return bytes(await session.call_tool(tool, prepared, timeout=destination.timeout))
        except RpcError as error:
            if found is not None or error.code != INVALID_PARAMS or not UNKNOWN.search(error.message):
                raise
            raise _Unlisted(str(unknown(tool, definitions)), code=USED_WRONGLY) from error

    result = _patiently(destination, tool, lambda: destination.run(work))
    if output is Output.json:
        sys.stdout.write(result.decode() + "\n")
    decoded = msgspec.json.decode(result)
    failed = isinstance(decoded, dict) and decoded.get("isError") is True
    if output is Output.table and not failed:
        print(shown(decoded))
    if failed:
        refusal = _with_reason(refused(decoded), destination, tool)
        wrong = refusal is not None and refusal.startswith(f"{INVALID_ARGUMENTS}: ")
        raise Failure(refusal or f"{tool} reports an error: {shown(decoded)}", code=USED_WRONGLY if wrong else FAILED)


def _with_reason(refusal: str | None, destination: Destination, tool: str) -> str | None:
    """A refusal that sends its reader to `fairlead servers`, as its server is away, with what stands there instead."""
    if refusal is None or not (refusal.startswith(f"{CONNECTION_LOST}: ") and refusal.endswith("says why")):
        return refusal
    own = lines_about(one for one in servers_of(destination) if has_tool(one, tool))
    return f"{CONNECTION_LOST}: {'; '.join(own)}" if own else refusal


class _Unlisted(Failure):
    """No tool of that name is listed."""


def _may_come(destination: Destination, tool: str) -> bool:
    """Whether a server that still starts may have the tool."""
    return any(has_tool(server, tool) for server in servers_of(destination) if server.get("state") in ON_THE_WAY)


def _patiently(destination: Destination, tool: str, call: Callable[[], bytes]) -> bytes:
    """Make the call; where the tool's server still starts, say so, wait, and make it again. Raises Failure."""
    end, again = time.monotonic() + destination.timeout, True
    while True:
        try:
            result = call()
        except _Unlisted:
            waited = wait_for(destination, end - time.monotonic(), lambda server: has_tool(server, tool))
            own = [server for server in servers_of(destination) if has_tool(server, tool)]
            for line in lines_about(own):
                raise Failure(line) from None
            if not (waited or (own and again)):
                raise
            again = False  # it was listed between the two looks, or it is not its tool
            continue
        except Failure as error:
            if error.code == USED_WRONGLY:
                raise
            own = [server for server in servers_of(destination) if has_tool(server, tool)]
            if not any(server.get("state") in ON_THE_WAY for server in own):
                raise
            raise Failure("; ".join(lines_about(own))) from None
        if not _starts(result) or time.monotonic() >= end:
            return result
        if not wait_for(destination, end - time.monotonic(), lambda server: has_tool(server, tool)):
            if not again:
                return result
            again = False  # it came between the two looks, or something keeps it


def _starts(result: bytes) -> bool:
    """Whether it is the gateway's refusal because the server starts."""
    try:
        return bool(msgspec.json.decode(result)["_meta"][META_ERROR]["code"] == STARTING)
    except (msgspec.DecodeError, KeyError, TypeError):
        return False


def refused(result: Any) -> str | None:
    """The gateway's own refusal as a line with its code; None for what the tool itself says."""
    meta = result.get("_meta")
    error = meta.get(META_ERROR) if isinstance(meta, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return None
    lines = str(error.get("message", "")).split("\n")
    text = f"{printable(error['code'])}: " + "\n".join(printable(line) for line in lines)
    after = error.get("retryAfterMs")
    return f"{text} (try again in {after / 1000:g} s)" if isinstance(after, int) else text


def shown(result: Any) -> str:
    """A result of `tools/call` for people: its texts, and a word for what is no text."""
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
        found = Plane.of(destination).get(f"/v1/tools/{quote(tool, safe='')}")
        definition = found["definition"]
    except (Failure, KeyError, TypeError):
        return None
    return definition if isinstance(definition, dict) else None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Failure(f"--arguments is not JSON: {error}", code=USED_WRONGLY) from error
    if not isinstance(value, dict):
        raise Failure('--arguments must be a JSON object, such as \'{"item": "rope"}\'', code=USED_WRONGLY)
    return value
