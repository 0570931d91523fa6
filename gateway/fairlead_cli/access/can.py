"""`fairlead can`: whether an agent may call a tool, and what decided; with its options and help."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from fairlead_cli.completing import tool_names
from fairlead_cli.options import DEFAULT_URL, HeaderOption, OutputOption, TimeoutOption, TokenOption, UrlOption
from fairlead_cli.output import Output, print_json, printable

MYSELF: Final = "me"
NO: Final = 1
"""Exit code of an answer that is no."""


def can(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Name of an agent, or `me`.")],
    call: Annotated[str, typer.Argument(metavar="call", help="The word `call`.")],
    tool: Annotated[
        str,
        typer.Argument(
            metavar="TOOL", help="As listed, as [NAMESPACE/]SERVER/TOOL, or by its id.", autocompletion=tool_names
        ),
    ],
    group: Annotated[list[str] | None, typer.Option(help="A group that the agent is in; may be repeated.")] = None,
    service_account: Annotated[str | None, typer.Option(help="The agent's ServiceAccount: namespace/name.")] = None,
    claim: Annotated[list[str] | None, typer.Option(help="Of the agent's token: NAME=VALUE; may be repeated.")] = None,
    issuer: Annotated[str | None, typer.Option(help="Who vouches for the agent, where several may.")] = None,
    arguments: Annotated[str | None, typer.Option(help="Of the call, as JSON: a policy may bound them.")] = None,
    url: UrlOption = DEFAULT_URL,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Say whether an agent may call a tool, and which policy decides. Ends with 0 for yes, 1 for no.

    About others than yourself an administrator may ask (FAIRLEAD_ADMIN_GROUPS), and everybody where nobody is asked
    who they are.

    Examples:

        fairlead can npc call tavern__web-search

        fairlead can npc call tavern__web-search --claim department=research

        fairlead can npc call tavern__web-search --issuer corp

        fairlead can me call files__read --arguments '{"path": "/data/public/a"}'
    """
    from fairlead_cli.connecting import Destination
    from fairlead_cli.failure import USED_WRONGLY, Failure
    from fairlead_cli.rest import Plane

    if call != "call":
        raise Failure(f"fairlead can AGENT call TOOL: {call!r} is not `call`", code=USED_WRONGLY)
    asked: dict[str, Any] = {"tool": tool}
    if agent != MYSELF:
        asked["agent"] = agent
    if group:
        asked["groups"] = ",".join(group)
    if service_account is not None:
        asked["serviceAccount"] = service_account
    if claim:
        asked["claims"] = claim
    if issuer is not None:
        asked["issuer"] = issuer
    if arguments is not None:
        asked["arguments"] = arguments
    plane = Plane.of(Destination.parse(url, header or [], None, timeout, token))
    found = plane.get("/v1/access", **asked)
    if output is Output.json:
        print_json(found)
    else:
        print("\n".join(lines(found)))
    if not found["allowed"]:
        sys.stdout.flush()
        sys.exit(NO)


def lines(found: dict[str, Any]) -> list[str]:
    """A decision for people: the answer and its reason, then what else bounds a call."""
    from fairlead_api.documents.servers import READY
    from fairlead_cli.servers.showing import meaning

    rows = [("tool", f"{found['tool']} of {found['server']}")]
    if found.get("serverState", READY) != READY:
        rows.append(("server", f"{found['serverState']}: {meaning(found) or 'calls fail'}"))
    if found["bounded"]:
        rows.append(("arguments", "a policy bounds them"))
    if found["hidden"]:
        rows.append(("listed", f"no: {found['hidden']}"))
    if found["tier"] or found["maxTier"]:
        rows.append(("tier", f"{found['tier'] or 'one per server'}, at most {found['maxTier'] or 'any'}"))
    rows += [("limit", f"{name} {value}") for name, value in found["limits"].items()]
    if found["pinned"]:
        rows.append(("pinned", "no budget cuts it"))
    if found["policies"]:
        rows.append(("policies", ", ".join(found["policies"])))
    answer = f"{'yes' if found['allowed'] else 'no'}: {printable(found['reason'])}"
    return [answer, *(f"  {name:10} {printable(value)}" for name, value in rows)]
