"""Options and help of the commands. Each command imports its implementation when it runs, so that `--help` is quick."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairlead_cli.access.accounts import accounts, logout
from fairlead_cli.access.can import can
from fairlead_cli.access.keys import keys
from fairlead_cli.access.login import login
from fairlead_cli.access.sign_ins import sign_ins, sign_out
from fairlead_cli.bridging.commands import bridge
from fairlead_cli.calling.search import search
from fairlead_cli.clients.commands import client
from fairlead_cli.cluster.processes import gateway, operator
from fairlead_cli.completing import tool_names
from fairlead_cli.models.commands import convert, plan
from fairlead_cli.openapi.commands import openapi
from fairlead_cli.optiongroups import expand_groups
from fairlead_cli.options import (
    EndpointOptions,
    KubeconfigOption,
    OutputOption,
    RoutesOption,
    TimeoutOption,
    ToolArgument,
    ToolsOption,
    show_help,
)
from fairlead_cli.output import Output
from fairlead_cli.pinning.commands import approve, diff
from fairlead_cli.servers.commands import events, logs, refresh, servers
from fairlead_cli.serving import ingest, serve
from fairlead_cli.speed.predicting import predict
from fairlead_cli.speed.scores import leaderboard, scores
from fairlead_cli.speed.telemetry import telemetry
from fairlead_cli.speed.tiers import explain, tiers
from fairlead_cli.top.commands import top

if TYPE_CHECKING:
    from fairlead_cli.connecting import Destination


class Shell(StrEnum):
    """Shells that completion scripts exist for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


app = typer.Typer(
    name="fairlead",
    help="Serve the tools of many MCP servers through one gateway, on a laptop or on Kubernetes.",
    epilog="Try it: `fairlead up` starts a few servers and says how to connect a client.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to load than all else that help needs
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@dataclass(frozen=True)
class ListingOptions(EndpointOptions):
    """Options that name a gateway, one of its servers or one of its tiers."""

    tier: Annotated[str | None, typer.Option(help="Only tools of this latency tier: fast, standard, deep, …")] = None

    def destination(self) -> Destination:
        """The gateway's endpoint, narrowed to the server and the tier if options name them. Raises Failure."""
        return super().destination().in_tier(self.tier)


@dataclass(frozen=True)
class CallingOptions(ListingOptions):
    """Options that name the endpoint at which a tool is called; the timeout is longer than that of a list."""

    timeout: TimeoutOption = 60.0
    tier: Annotated[str | None, typer.Option(help="Call the tool as clients of this latency tier do.")] = None


@app.callback()
def fairlead(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """Serve the tools of many MCP servers through one gateway, on a laptop or on Kubernetes."""
    if show_version and context.invoked_subcommand is None:
        from fairlead_cli.about import run_version

        run_version(Output.table)
    else:
        show_help(context)


@app.command()
def up(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DIR|FILE|URL",
            help="Manifests, MCP client configurations such as mcp.json, or OpenAPI documents, whose operations become "
            "tools. Without arguments: the quick start.",
            show_default=False,
        ),
    ] = None,
    tools: ToolsOption = None,
    routes: RoutesOption = None,
    litellm: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="FAIRLEAD_LITELLM_URL",
            help="LiteLLM proxy whose MCP tools are served. Its key is in FAIRLEAD_LITELLM_KEY.",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            metavar="URL|NAME",
            envvar="FAIRLEAD_LLM",
            help="Model behind /v1/chat/completions: openai, anthropic or gemini, with OPENAI_API_KEY, "
            "ANTHROPIC_API_KEY or GEMINI_API_KEY; a URL of an API like OpenAI's, with FAIRLEAD_LLM_KEY if it needs a "
            "key; scripted, which needs no key and only calls tools; or auto: the first provider whose key is set, "
            "else scripted.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="With --llm scripted: also reject the requests that OpenAI's API rejects."),
    ] = False,
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Latency tier of clients that name no tier: fast, … Without it, they see every tool."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, envvar="FAIRLEAD_PORT", help="Port for MCP clients; 0 takes a free port."),
    ] = 8080,
    metrics_port: Annotated[
        int,
        typer.Option(min=0, max=65535, envvar="FAIRLEAD_METRICS_PORT", help="Port of /metrics; 0 takes a free port."),
    ] = 9464,
    host: Annotated[
        str,
        typer.Option(
            envvar="FAIRLEAD_HOST", help="Address to listen on; with :: or 0.0.0.0, other machines can connect."
        ),
    ] = "127.0.0.1",
    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder for documents and credentials. Without it, they are deleted when the command ends, but for "
            "sign-ins at servers, which stay in ~/.local/state/fairlead/grants."
        ),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live table.")] = False,
    output: OutputOption = Output.table,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Call tools that say they are read-only, with made-up arguments, to learn how fast they are.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print the log, and the output of servers.")] = False,
) -> None:
    """Run MCP servers on this machine and serve their tools through one gateway.

    Servers are started as child processes, or reached by URL; packages from PyPI and npm are installed on first use.
    Changed files are read again. Ctrl-C ends the command.

    By default, a tool is called to measure its latency only if a manifest has `probe.arguments` for it, as the manifest
    of the demo server in the quick start does. With --probe, read-only tools (`readOnlyHint`) of servers that run on
    this machine are probed too. `calibration.probe` in a manifest overrides both. A tool is probed when its server
    connects, once an hour, and while a latency tier hides it; probing takes at most 5 % of the time.

    Examples:

        fairlead up                       (a quick start)

        fairlead up ~/.cursor/mcp.json    (the servers of an MCP client)

        fairlead up servers/              (a folder of manifests)

        fairlead up petstore.yaml         (the operations of a REST API)

        fairlead up --tools my_tools.py   (your own functions, in addition to the quick start)

        fairlead up --llm scripted        (and a model that calls tools by itself)
    """
    from fairlead_cli.failure import needs

    with needs("up"):
        from fairlead_cli.up.command import UpOptions, run_up
        from fairlead_cli.up.openapi import is_document

    documents = tuple(source for source in sources or () if is_document(source))
    run_up(
        UpOptions(
            paths=tuple(Path(source) for source in sources or () if source not in documents),
            documents=documents,
            tools=tuple(tools or ()),
            routes=routes,
            litellm=litellm,
            llm=llm,
            strict=strict,
            tier=tier,
            host=host,
            port=port,
            metrics_port=metrics_port,
            state_dir=state_dir,
            probe=probe,
            plain=plain,
            json=output is Output.json,
            verbose=verbose,
        )
    )


@app.command()
@expand_groups
def tools(
    tool: Annotated[
        str | None,
        typer.Argument(
            metavar="TOOL", help="Show this tool, with its arguments.", show_default=False, autocompletion=tool_names
        ),
    ] = None,
    gateway: ListingOptions = ListingOptions(),
    output: OutputOption = Output.table,
    format: Annotated[  # noqa: A002 - the name of the option
        str | None,
        typer.Option(help="Print what goes into a provider's request: openai, anthropic, gemini, bedrock, …"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --format: make tools strict unless that changes their schemas.")
    ] = False,
    losses: Annotated[
        bool,
        typer.Option("--losses", help="With --format: list everything that the format cannot express, tool by tool."),
    ] = False,
    tokens: Annotated[
        bool,
        typer.Option("--tokens", help="Show the tokens of each definition, and what `tools` of its server saves."),
    ] = False,
) -> None:
    """List the tools that a gateway offers, or show one of them.

    With --format, the array of tools goes to standard output, and the losses of the format to standard error.

    Examples:

        fairlead tools

        fairlead tools everything__echo

        fairlead tools --format anthropic > tools.json

        fairlead tools --server time --json

        fairlead tools --tier fast

        fairlead tools --tokens

        fairlead tools --url https://tools.example.com/mcp -H "Authorization: Bearer $TOKEN"
    """
    from fairlead_cli.calling.tools import run_offer, run_tool, run_tools
    from fairlead_cli.failure import USAGE_ERROR, Failure

    if (tool is not None) + (format is not None) + tokens > 1:
        raise Failure("give only one of a tool, --format and --tokens", code=USAGE_ERROR)
    destination = gateway.destination()
    if tool is not None:
        run_tool(destination, tool, output)
    elif tokens:
        from fairlead_cli.calling.tool_tokens import run_tokens

        run_tokens(destination, output)
    elif format is None:
        run_tools(destination, output)
    else:
        run_offer(destination, format, output, strict=strict, losses=losses)


app.add_typer(client, name="client")
app.add_typer(keys, name="keys")
app.add_typer(openapi, name="openapi")
app.command()(search)
app.command()(convert)
app.command()(plan)
app.command()(servers)
app.command()(refresh)
app.command()(events)
app.command()(logs)
app.command()(top)
app.command()(tiers)
app.command()(explain)
app.command()(can)
app.command()(login)
app.command()(accounts)
app.command()(logout)
app.command()(sign_ins)
app.command()(sign_out)
app.command()(diff)
app.command()(approve)
app.command()(predict)
app.command()(scores)
app.command()(leaderboard)
app.add_typer(telemetry, name="telemetry")


@app.command()
@expand_groups
def call(
    tool: ToolArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Arguments, converted to the types in the tool's schema; KEY:=JSON takes the value as JSON.",
            show_default=False,
        ),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option("--arguments", "-a", metavar="JSON", help="All arguments as one JSON object; - reads stdin."),
    ] = None,
    gateway: CallingOptions = CallingOptions(),
    output: OutputOption = Output.table,
) -> None:
    """Call a tool and print its result. Exit code 1 when the tool reports an error.

    An unknown KEY is reported before the tool is called, unless the tool's schema allows additional properties.
    --arguments is rejected only for properties that the schema forbids.

    Examples:

        fairlead call demo__get_stock item=rope

        fairlead call demo__forecast_demand item=rope weeks=8 --json

        fairlead call time__get_current_time --arguments '{"timezone": "UTC"}'
    """
    from fairlead_cli.calling.call import run_call

    run_call(gateway.destination(), tool, words or [], arguments, output)


@app.command()
def crds(
    install: Annotated[
        bool,
        typer.Option(
            "--install",
            help="Apply the definitions to the kubeconfig's cluster, and wait until the cluster serves them.",
        ),
    ] = False,
    kubeconfig: KubeconfigOption = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for the cluster.")] = 60.0,
    output: OutputOption = Output.table,
) -> None:
    """Print the custom resource definitions (McpServer, LatencyTier, ToolPolicy) as YAML, or install them.

    Examples:

        fairlead crds | kubectl apply --server-side -f -

        fairlead crds --install
    """
    from fairlead_cli.cluster.crds import install_crds, print_crds

    if install:
        install_crds(str(kubeconfig or ""), timeout, output)
    else:
        print_crds(output)


@app.command()
def migrate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Manifests, or an mcp.json.")],
    in_place: Annotated[bool, typer.Option("--in-place", "-i", help="Rewrite the files themselves.")] = False,
) -> None:
    """Rewrite manifests of an earlier release to the fields of this release; comments and order stay.

    Examples:

        fairlead migrate server.yaml | kubectl apply -f -

        fairlead migrate --in-place manifests/*.yaml
    """
    from fairlead_cli.cluster.migrating import migrate_files

    migrate_files(files, in_place=in_place)


app.command()(bridge)
app.command()(serve)
app.command()(ingest)
app.command()(operator)
app.command()(gateway)


@app.command()
def completion(
    shell: Annotated[
        Shell | None,
        typer.Argument(metavar="SHELL", help="bash, zsh or fish. Default: the shell that SHELL names."),
    ] = None,
) -> None:
    """Print a script that completes commands, options, and names of tools and servers in a shell.

    Examples:

        source <(fairlead completion bash)        (in ~/.bashrc)

        source <(fairlead completion zsh)         (in ~/.zshrc, after compinit)

        fairlead completion fish | source         (in ~/.config/fish/config.fish)
    """
    from typer._completion_shared import get_completion_script

    shell = shell or _own_shell()
    print(get_completion_script(prog_name="fairlead", complete_var="_FAIRLEAD_COMPLETE", shell=shell.value))


def _own_shell() -> Shell:
    """The user's shell, from the variable SHELL. Raises Failure if there is no completion script for that shell."""
    from fairlead_cli.failure import USAGE_ERROR, Failure

    name = Path(os.environ.get("SHELL", "")).name
    if name in [shell.value for shell in Shell]:
        return Shell(name)
    problem = f"SHELL is {name}, which has no completion" if name else "SHELL is not set"
    raise Failure(f"{problem}; name a shell: fairlead completion bash, zsh or fish", code=USAGE_ERROR)


@app.command()
def version(output: OutputOption = Output.table) -> None:
    """Print the version.

    Example: fairlead version --json
    """
    from fairlead_cli.about import run_version

    run_version(output)
