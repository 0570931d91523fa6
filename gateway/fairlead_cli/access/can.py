"""`fairlead can`: reports whether an agent may call a tool, and which policy decides."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from fairlead_cli.completing import tool_names
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import GatewayOptions, OutputOption
from fairlead_cli.output import Output, print_json, printable

MYSELF: Final = "me"
NO: Final = 1
"""Exit code for the answer no."""


@dataclass(frozen=True)
class QuestionDetails:
    """Options that describe the agent and the call, in addition to the names of agent and tool."""

    group: Annotated[list[str] | None, typer.Option(help="Group of the agent; may be repeated.")] = None
    service_account: Annotated[str | None, typer.Option(help="ServiceAccount of the agent: namespace/name.")] = None
    claim: Annotated[list[str] | None, typer.Option(help="Claim of the token: NAME=VALUE; may be repeated.")] = None
    issuer: Annotated[
        str | None, typer.Option(help="Issuer of the agent's name; needed if there are several issuers.")
    ] = None
    arguments: Annotated[str | None, typer.Option(help="Arguments as JSON, which policies may restrict.")] = None

    def parameters(self) -> dict[str, Any]:
        """Query parameters of `/v1/access`, without options that were not given."""
        parameters = {
            "groups": ",".join(self.group or ()) or None,
            "serviceAccount": self.service_account,
            "claims": self.claim or None,
            "issuer": self.issuer,
            "arguments": self.arguments,
        }
        return {name: value for name, value in parameters.items() if value is not None}


@expand_groups
def can(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Name of an agent, or `me`.")],
    call: Annotated[str, typer.Argument(metavar="call", help="The word `call`.")],
    tool: Annotated[
        str,
        typer.Argument(
            metavar="TOOL",
            help="Name of the tool as listed, [NAMESPACE/]SERVER/TOOL, or its id.",
            autocompletion=tool_names,
        ),
    ],
    details: QuestionDetails = QuestionDetails(),
    gateway: GatewayOptions = GatewayOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Report whether an agent may call a tool, and which policy decides. The exit code is 0 for yes, 1 for no.

    Only administrators may ask about other agents (FAIRLEAD_ADMIN_GROUPS); without authentication, everybody may.

    Examples:

        fairlead can npc call tavern__web-search

        fairlead can npc call tavern__web-search --claim department=research

        fairlead can npc call tavern__web-search --issuer corp

        fairlead can me call files__read --arguments '{"path": "/data/public/a"}'
    """
    from fairlead_cli.failure import USAGE_ERROR, Failure
    from fairlead_cli.rest import ManagementClient

    if call != "call":
        raise Failure(
            f"the second word must be `call`, not {call!r}: write fairlead can AGENT call TOOL", code=USAGE_ERROR
        )
    question = {"tool": tool} | ({} if agent == MYSELF else {"agent": agent}) | details.parameters()
    client = ManagementClient.of(gateway.destination())
    answer = client.get("/v1/access", **question)
    if output is Output.json:
        print_json(answer)
    else:
        print("\n".join(decision_lines(answer)))
    if not answer["allowed"]:
        sys.stdout.flush()
        sys.exit(NO)


def decision_lines(decision: dict[str, Any]) -> list[str]:
    """Lines about a decision: the answer and its reason, then further restrictions of the call."""
    from fairlead_api.documents.servers import READY
    from fairlead_cli.servers.showing import meaning

    rows = [("tool", f"{decision['tool']} of {decision['server']}")]
    if decision.get("serverState", READY) != READY:
        rows.append(("server", f"{decision['serverState']}: {meaning(decision) or 'calls fail'}"))
    if decision.get("credential"):
        rows.append(("called as", decision["credential"]))
    if decision["bounded"]:
        rows.append(("arguments", "a policy restricts the arguments"))
    if decision["hidden"]:
        rows.append(("listed", f"no: {decision['hidden']}"))
    if decision["tier"] or decision["maxTier"]:
        rows.append(("tier", f"{decision['tier'] or 'one per server'}, at most {decision['maxTier'] or 'any'}"))
    rows += [("limit", f"{name} {value}") for name, value in decision["limits"].items()]
    if decision["pinned"]:
        rows.append(("pinned", "stays listed when a budget is exceeded"))
    if decision["policies"]:
        rows.append(("policies", ", ".join(decision["policies"])))
    answer = f"{'yes' if decision['allowed'] else 'no'}: {printable(decision['reason'])}"
    return [answer, *(f"  {name:10} {printable(value)}" for name, value in rows)]
