"""`fairlead servers`: each server with its state and the reason, restarts, memory, tools and latency."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from fairlead_api.documents.servers import READY, SIGN_IN
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import Reason
from fairlead_api.v1alpha1.reasons import EXPLANATIONS
from fairlead_cli.connecting import Destination
from fairlead_cli.output import Output, print_json, print_table, printable
from fairlead_cli.rest import ManagementClient
from fairlead_cli.wording import ready_to_paste

ADMIN_HINT = "Administrators of the gateway see the server's own message; on a cluster, kubectl describe mcps shows it."
ADMIN_HINT_FOR_SEVERAL = ADMIN_HINT.replace("the server's own message", "each server's own message")
COLUMNS = ("SERVER", "STATE", "TOOLS", "P95", "RESTARTS", "RSS", "REASON")
NOT_KNOWN = "-"
CONFLICTED = str(Reason.CONFLICTED)
EXPECTED_CAUSES = frozenset({Cause.DEPLOYING, Cause.BEING_REPLACED, Cause.NOT_DISCOVERED})
"""Causes of a starting server that need no explanation."""
PRINTED_NOTHING = " has printed nothing for "
"""Part of the message about a silent process, which may have printed something since."""


def run_servers(destination: Destination, server: str | None, output: Output) -> None:
    """Print all servers, or one. Raises Failure."""
    client = ManagementClient.of(destination)
    if server is not None:
        answer = client.get(f"/v1/servers/{quote(server, safe='/')}")
        documents, files = [answer], []
    else:
        answer = client.get("/v1/servers")
        documents, files = answer["servers"], answer.get("fileProblems", [])
    if output is Output.json:
        print_json(answer)
        return
    if documents:
        print_table(COLUMNS, [row(document) for document in documents])
    else:
        print(f"{destination.url} has no servers that you may see.")
    if server is not None:
        print_operations(answer)
    for line in [*details(documents), *file_lines(file["message"] for file in files)]:
        print(line)


def print_operations(server: dict[str, Any]) -> None:
    """Print how many operations of a server's OpenAPI document are tools, with remarks; nothing for other servers."""
    api = server.get("api")
    if api is None:
        return
    print(f"\n{operations_sentence(api)}")
    if remarks := api.get("remarks", []):
        print_table(
            ("OPERATION", "TOOL", "WHY"), [(each["operation"], _cell(each["tool"]), each["why"]) for each in remarks]
        )


def operations_sentence(api: dict[str, Any]) -> str:
    """Sentence about how many operations are tools."""
    tool_count = api["operations"] - api["leftOut"]
    return (
        f"{tool_count:,} of {api['operations']:,} operations are tools, {api['withLoss']:,} of them with losses; "
        f"{api['leftOut']:,} are left out"
    )


def row(server: dict[str, Any]) -> tuple[str, ...]:
    """Cells of one server; `-` for values that the gateway does not have or does not disclose."""
    return (
        str(server["server"]),
        state_of(server),
        _cell(server.get("tools")),
        _duration(server.get("p95Ms")),
        _cell(server.get("restarts")),
        _megabytes(server.get("rssBytes")),
        cause_of(server),
    )


def state_of(server: dict[str, Any]) -> str:
    """State of a server for the caller: SIGN_IN if the server is ready, but the caller has to sign in."""
    return SIGN_IN if server["state"] == READY and server.get("signIn") else str(server["state"])


def cause_of(server: dict[str, Any]) -> str:
    """Cause of the state in one word; empty without a cause."""
    if state_of(server) == SIGN_IN:
        return str(Cause.SIGN_IN_REQUIRED)
    return str(server.get("cause") or server.get("reason") or (CONFLICTED if server.get("conflict") else ""))


def details(servers: list[dict[str, Any]]) -> list[str]:
    """Lines below the table. For each server: its message, or else the meaning of its cause; the last output of a
    server that is not ready or lists no tools, unless the message contains it or says that there is none; and the
    server that already has the same prefix.
    """
    lines = []
    has_several_hints = sum(map(_lacks_message, servers)) > 1
    for server in servers:
        message, last_words = sentence(server, admin_hint=not has_several_hints), str(server.get("lastWords", ""))
        is_empty = server["state"] == READY and server.get("tools") == 0 and "restarts" in server
        if is_empty and not message:
            name = server["server"]
            message = f"{name} offers no tools: its entry leaves them out, or its output says why: fairlead logs {name}"
        if message:
            lines += ["", message]
        is_shown = (is_empty or server["state"] != READY) and PRINTED_NOTHING not in message
        if last_words and last_words not in message and is_shown:
            lines += [] if message else ["", f"{server['server']}:"]
            lines.append(f"  last output: {last_words}")
        if conflict := str(server.get("conflict", "")):
            lines += ["", f"{server['server']}: {conflict}"]
    if has_several_hints:
        lines += ["", ADMIN_HINT_FOR_SEVERAL]
    return [ready_to_paste(printable(line)) for line in lines]


def file_lines(messages: Iterable[str]) -> list[str]:
    """Lines about problems of files that declare servers, except problems that belong to a single server."""
    return [line for message in messages for line in ("", printable(f"problem: {message}"))]


def _lacks_message(server: dict[str, Any]) -> bool:
    """Whether the gateway discloses only the cause to this principal, and not the server's message."""
    is_unready = server["state"] != READY and not server.get("signIn") and server.get("cause") not in EXPECTED_CAUSES
    return is_unready and not server.get("message") and bool(meaning(server))


def sentence(server: dict[str, Any], *, admin_hint: bool = True) -> str:
    """The server's message, or else the general meaning of its cause, after the server's name. If this principal may
    not see the message, `admin_hint` adds who may see it. Empty if nothing has to be explained.
    """
    message = str(server.get("message", ""))
    if state_of(server) == SIGN_IN and server.get("signIn"):
        return f"{server['server']}: {server['signIn']}: fairlead login {server['server']}"
    if server.get("cause") in EXPECTED_CAUSES:
        return ""
    if _lacks_message(server):
        message = f"{meaning(server)} {ADMIN_HINT}" if admin_hint else meaning(server)
    name = str(server["server"])
    return f"{name}: {message}" if message and not message.startswith(f"{name} ") else message


def meaning(server: dict[str, Any]) -> str:
    """General meaning of the server's cause; empty without a cause, or if the cause is from a later release."""
    cause = str(server.get("cause") or server.get("serverCause") or "")
    return EXPLANATIONS[Cause(cause)].meaning if cause in frozenset(Cause) else ""


def _cell(value: Any) -> str:
    return NOT_KNOWN if value is None else str(value)


def _duration(milliseconds: Any) -> str:
    return NOT_KNOWN if milliseconds is None else f"{round(milliseconds):,} ms"


def _megabytes(size: Any) -> str:
    return NOT_KNOWN if size is None else f"{size / 1e6:,.0f} MB"
