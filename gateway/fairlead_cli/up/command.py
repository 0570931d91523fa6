"""`fairlead up` from start to end: checks the options, composes operator and gateway, runs both, stops them.

Operator and gateway run in one process with one event loop, and share the child processes that run servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
import uv
import uvloop
from rich.console import Console

from fairlead_api.bad_setting import BadSetting
from fairlead_api.meta import ServerKey
from fairlead_app.authentication import build_trust
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, Runtime, compose
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_cli.access.key_changes import KEY_FILE
from fairlead_cli.browsing import open_in_browser
from fairlead_cli.failure import FAILED, USAGE_ERROR, Failure
from fairlead_cli.up.board import Board
from fairlead_cli.up.display import Addresses, Display, JsonChanges, LiveTable, PlainLines
from fairlead_cli.up.folders import folders, grants_folder, store_url
from fairlead_cli.up.found_configurations import own_files
from fairlead_cli.up.gateways import OwnGateway
from fairlead_cli.up.given_servers import WithServers
from fairlead_cli.up.litellm import litellm_server
from fairlead_cli.up.llm import ChosenModel, chosen_model
from fairlead_cli.up.logs import configure_logging
from fairlead_cli.up.missing_files import missing_paths
from fairlead_cli.up.openapi import api_servers
from fairlead_cli.up.quickstart import Skipped, quick_start
from fairlead_cli.up.sign_in_keys import SignInKeys
from fairlead_cli.up.terminal_keys import TerminalKeys
from fairlead_cli.up.wanted_sign_ins import show_wanted_sign_ins, user_of
from fairlead_cli.wording import NAMED_URL
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.catalog.pins import DirectoryPins
from fairlead_gateway.custom.load import LoadedTools, load
from fairlead_gateway.endpoint.free_ports import suggest_ports
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_gateway.heap import Heap
from fairlead_gateway.identity.made_keys import EVERYBODY
from fairlead_mcp import processes
from fairlead_mcp.addresses import EVERY_ADDRESS, EVERY_IPV4_ADDRESS, authority
from fairlead_mcp.eras import Client
from fairlead_mcp.host import ChildHost
from fairlead_operator.local.documents import DirectoryDocuments
from fairlead_operator.local.installers import Tools
from fairlead_operator.local.localoperator import (
    FixedDeclarations,
    Folders,
    LocalObserver,
    LocalOperator,
    LocalOptions,
    Scanner,
)
from fairlead_operator.local.sources import Sources
from fairlead_operator.ports import PlatformTrouble
from fairlead_operator.reconciler import ReconcilerOptions
from fairlead_operator.telemetry import Telemetry
from fairlead_rest.process_outputs import ProcessOutputs
from fairlead_tools.commands import DEFAULT_URL
from fairlead_tools.handlers.tools import SERVER
from fairlead_tools.names import exposed_name
from fairlead_tools.version import NAME, VERSION

GRACE: Final = 10.0
"""Seconds that calls in flight have to end when the command stops."""
REDRAW_SECONDS: Final = 0.1
"""Shortest time between two redraws: all changes within this time are shown together."""
TICK_SECONDS: Final = 1.0
"""Longest time between two redraws: without any change, displayed durations still advance."""
TOKEN_BYTES: Final = 18
"""Random bytes of the token in the printed address of the console."""
_LOCAL: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class UpOptions:
    """Options of the command line."""

    paths: tuple[Path, ...] = ()
    documents: tuple[str, ...] = ()
    """Files and URLs of OpenAPI documents."""
    host: str = "127.0.0.1"
    port: int = 8080
    metrics_port: int = 9464
    tools: tuple[str, ...] = ()
    routes: Path | None = None
    litellm: str | None = None
    """URL of a LiteLLM proxy that is added to the servers."""
    llm: str | None = None
    """Model behind the model endpoints: a provider's name, a URL, `scripted` or `auto`."""
    strict: bool = False
    """Whether the scripted model rejects what OpenAI's API rejects."""
    tier: str | None = None
    state_dir: Path | None = None
    probe: bool = False
    """Whether tools with `readOnlyHint` are probed without `probe.arguments`."""
    plain: bool = False
    json: bool = False
    verbose: bool = False


def run_up(options: UpOptions) -> None:
    """Serve until a signal arrives. Raises Failure for problems that the user can correct."""
    for path in missing_paths(options.paths, options.tools, options.routes):
        raise Failure(path, code=USAGE_ERROR)
    console = _console(os.environ)
    is_live = console.is_terminal and not console.is_dumb_terminal and sys.stdout.isatty()
    is_live = is_live and not (options.plain or options.json)
    configure_logging(verbose=options.verbose, console=console if is_live else None)
    keys = TerminalKeys(sys.stdin.fileno()) if is_live and sys.stdin.isatty() else None
    display: Display = LiveTable(console, keys) if is_live else JsonChanges() if options.json else PlainLines()
    with ExitStack() as stack:
        run_folders = stack.enter_context(folders(options.state_dir, os.environ))
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        stack.enter_context(display)
        abandon = _abandon_handler(display, run_folders if options.state_dir is None else None)
        runner.run(_with_model(options, run_folders, display, abandon))


def _console(environment: Mapping[str, str]) -> Console:
    """A console with the window's current size: readline exports COLUMNS and LINES once, and they become outdated."""
    return Console(_environ={name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")})


async def _with_model(options: UpOptions, run_folders: Folders, display: Display, abandon: Callable[[], None]) -> None:
    if options.llm and is_own_address(options.llm, options):
        raise Failure("--llm names this gateway's own address; --port moves the gateway", code=USAGE_ERROR)
    async with chosen_model(options.llm, os.environ, strict=options.strict) as model:
        await _serve(options, run_folders, display, abandon, model)


async def _serve(
    options: UpOptions, run_folders: Folders, display: Display, abandon: Callable[[], None], model: ChosenModel
) -> None:
    processes.become_subreaper()
    stop, changed, nudge = asyncio.Event(), asyncio.Event(), asyncio.Event()
    _stop_on_signals(stop, abandon)
    children = ChildHost(client=Client(name=NAME, version=VERSION))
    scanner, skipped = _scanner(options)
    outputs = ProcessOutputs(
        children,
        lambda: (*local_operator.declared_servers, *local_operator.refused_servers),
        lambda key: local_operator.installation(key),  # noqa: PLW0108 - the local operator is made below
    )
    token = secrets.token_urlsafe(TOKEN_BYTES)
    gateway, custom = _gateway(options, run_folders, _LocalServers(children, outputs, nudge), model, token)
    board = Board(
        lambda key: _tools_of(local_operator.documents, key),
        changed.set,
        lambda key: _starts_of(children, key),
        lambda: len(local_operator.refused_servers),
    )
    telemetry = Telemetry()
    telemetry.leader.set(1)
    gateway.metrics.register(telemetry.registry)
    local_operator = LocalOperator(
        scanner,
        run_folders,
        children,
        installers(os.environ),
        LocalObserver(statuses=board, problems=board.set_problems, on_document_write=nudge.set),
        LocalOptions(
            environ=os.environ,
            gateways=OwnGateway(gateway.outbox),
            egress=gateway.settings.upstream.egress.rules,
            installation=gateway.endpoint.installation,
            telemetry=telemetry,
            reconciler=ReconcilerOptions(probe="ReadOnly" if options.probe else "Declared"),
            default_tier=options.tier or "",
        ),
    )
    board.add_custom_tools(ServerKey(gateway.settings.installation.local_namespace, SERVER), custom)
    try:
        local_operator.scan()
        _check_tier(options.tier, local_operator.tiers)
        await _prepare(local_operator, run_folders)
        await _start(gateway, options)
        addresses = _addresses(options, gateway, model.model, token)
        store_url(run_folders.documents.parent, addresses.mcp)
        NAMED_URL.set("" if addresses.mcp == DEFAULT_URL else addresses.mcp)
        display.show_addresses(addresses)
        for key in local_operator.declared_servers:
            board.declare(key)
        for server in skipped:
            board.skip(server)
        changed.set()
        keys = SignInKeys(
            lambda: board.sign_ins,
            lambda key: gateway.sign_ins.link(user_of(gateway.endpoint.identities), key, None),
            lambda url: asyncio.to_thread(open_in_browser, url),
            changed.set,
        )
        sign_ins = show_wanted_sign_ins(gateway.endpoint.identities, gateway.sign_ins.required, board)
        await _until_stopped(stop, local_operator, display, DisplayContent(board, keys, changed), sign_ins)
        display.show_stopping()
        await gateway.stop(GRACE)
    finally:
        await children.aclose()


class DisplayContent(NamedTuple):
    """Content of a display."""

    board: Board
    sign_in: SignInKeys
    changed: asyncio.Event
    """Set when the content has changed."""


async def _until_stopped(
    stop: asyncio.Event,
    local_operator: LocalOperator,
    display: Display,
    content: DisplayContent,
    sign_ins: Coroutine[object, object, None],
) -> None:
    """Run operator, display and `sign_ins`, which informs the board, until `stop` is set. If one fails, the others are
    cancelled and the error is raised.
    """
    operator_task = asyncio.create_task(local_operator.run(), name="local_operator")
    display_task = asyncio.create_task(_redraw_on_changes(display, content.board, content.changed), name="display")
    keys_task = asyncio.create_task(display.watch_keys(content.sign_in), name="keys")
    sign_ins_task = asyncio.create_task(sign_ins, name="wanted sign-ins")
    stop_task = asyncio.create_task(stop.wait(), name="stop")
    try:
        lasting_tasks = (operator_task, display_task, keys_task, sign_ins_task)
        await asyncio.wait((*lasting_tasks, stop_task), return_when=asyncio.FIRST_COMPLETED)
        for task in lasting_tasks:
            if task.done():
                task.result()
    finally:
        for ending_task in (operator_task, display_task, keys_task, sign_ins_task, stop_task):
            ending_task.cancel()
        await asyncio.gather(operator_task, display_task, keys_task, sign_ins_task, stop_task, return_exceptions=True)


async def _redraw_on_changes(display: Display, board: Board, changed: asyncio.Event) -> None:
    """Redraw after each change, and at least every `TICK_SECONDS`."""
    with contextlib.suppress(NotImplementedError, ValueError):  # a loop or a system without this signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await changed.wait()
        changed.clear()
        display.refresh(board)
        await asyncio.sleep(REDRAW_SECONDS)


async def _prepare(local_operator: LocalOperator, run_folders: Folders) -> None:
    try:
        await local_operator.prepare()
    except PlatformTrouble as error:
        reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error
        advice = "free space there, or choose another folder with --state-dir"
        message = f"{run_folders.documents.parent} cannot be used: {reason}; {advice}"
        raise Failure(message) from error


async def _start(gateway: Gateway, options: UpOptions) -> None:
    try:
        await gateway.start()
    except PortTaken as error:
        cause = error.__cause__
        number = cause.errno if isinstance(cause, OSError) else None
        raise Failure(f"{error}: {_remedy(number, error, options)}") from error


def _remedy(number: int | None, error: PortTaken, options: UpOptions) -> str:
    if number == errno.EADDRINUSE:
        return suggest_ports(options.host, {"--port": options.port, "--metrics-port": options.metrics_port})
    if number == errno.EACCES:
        is_metrics_port = error.port == options.metrics_port != options.port
        return f"choose a port of 1024 or above with {'--metrics-port' if is_metrics_port else '--port'}"
    return "--host must be an address of this machine"


def _check_tier(tier: str | None, tiers: tuple[str, ...]) -> None:
    if tier is not None and tier not in tiers:
        raise Failure(f"--tier: there is no latency tier {tier!r}; tiers: {', '.join(tiers)}", code=USAGE_ERROR)


class _LocalServers(NamedTuple):
    """Objects that the gateway shares with the operator of this process."""

    children: ChildHost
    outputs: ProcessOutputs
    nudge: asyncio.Event
    """Set when documents have changed, so that the gateway reads them."""


def _gateway(
    options: UpOptions, run_folders: Folders, servers: _LocalServers, model: ChosenModel, console_token: str
) -> tuple[Gateway, LoadedTools]:
    try:
        settings = Settings.from_env(
            os.environ,
            host=options.host,
            port=options.port,
            metrics_port=options.metrics_port,
            documents=run_folders.documents,
            credentials=run_folders.credentials,
            tools=options.tools or None,
            routes=options.routes,
            environment="local",
            gateway_approvals=True,
            # the user who runs `up` chose the files, which may also start programs
            token_exchange_allowed=os.environ.get("FAIRLEAD_TOKEN_EXCHANGE_ALLOWED") or "*",
            **_own_keys(os.environ, run_folders),
            **_made_keys(os.environ, run_folders),
            grants_directory=os.environ.get("FAIRLEAD_GRANTS_DIRECTORY")
            or grants_folder(options.state_dir, os.environ),
            audit=os.environ.get("FAIRLEAD_AUDIT") or "off",  # standard output is for people
        )
        custom = load(settings.calls.custom.modules)
        gateway = compose(
            settings,
            CatalogFeed(
                source=DirectorySource(run_folders.documents, nudge=servers.nudge),
                pins=DirectoryPins(run_folders.documents),
            ),
            ServerAccess(
                credentials=DirectoryCredentials(run_folders.credentials),
                children=servers.children,
                custom=custom.tools,
                outputs=servers.outputs,
            ),
            models=ConfiguredModels.of_file(settings.models.routes, model.added),
            trust=msgspec.structs.replace(build_trust(settings), console_token=console_token),
            runtime=Runtime(heap=Heap()),
        )
    except BadSetting as error:
        raise Failure(str(error), code=USAGE_ERROR) from error
    return gateway, custom


def _own_keys(environ: Mapping[str, str], run_folders: Folders) -> dict[str, Path]:
    """Setting `api_keys`, if `fairlead keys --state-dir` wrote a key file and the environment names no other file."""
    file = run_folders.documents.parent / KEY_FILE
    return {"api_keys": file} if "FAIRLEAD_API_KEYS" not in environ and file.exists() else {}


def _made_keys(environ: Mapping[str, str], run_folders: Folders) -> dict[str, tuple[str, ...] | Path]:
    """Settings of keys that users create for themselves: with `fairlead up`, every authenticated user may create keys,
    unless the environment says otherwise. Empty if no authentication is configured.
    """
    authenticates = {"FAIRLEAD_API_KEYS", "FAIRLEAD_IDENTITY"} & environ.keys() or _own_keys(environ, run_folders)
    if "FAIRLEAD_KEY_MAKERS" in environ or not authenticates:
        return {}
    return {"key_makers": (EVERYBODY,), "made_keys": run_folders.documents.parent / "made-keys.json"}


def _scanner(options: UpOptions) -> tuple[Scanner, tuple[Skipped, ...]]:
    scanner: Scanner = Sources(options.paths, os.environ, is_own=lambda url: is_own_address(url, options))
    if options.documents:
        scanner = WithServers(scanner, api_servers(options.documents))
    if options.litellm:
        if is_own_address(options.litellm, options):
            raise Failure("--litellm names this gateway's own address; --port moves the gateway", code=USAGE_ERROR)
        return WithServers(scanner, [litellm_server(options.litellm, os.environ)]), ()
    if options.paths or options.documents:
        return scanner, ()
    contents, skipped = quick_start(Path.cwd())
    return FixedDeclarations(contents), skipped


def is_own_address(url: str, options: UpOptions) -> bool:
    """Whether a URL is this gateway's own address, as in the entry of a client that already uses the gateway. A gateway
    that served its own address would call itself without end.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return False
    return port == options.port and (parts.hostname or "") in {*_LOCAL, options.host}


def installers(environ: Mapping[str, str]) -> Tools:
    """The programs of this machine that install packages: uv, npm and node."""
    path = environ.get("PATH")
    try:
        program: str | None = uv.find_uv_bin()
    except FileNotFoundError:
        program = shutil.which("uv", path=path)
    return Tools(uv=program, npm=shutil.which("npm", path=path), node=shutil.which("node", path=path))


def _starts_of(children: ChildHost, key: ServerKey) -> int:
    child = children.find(key)
    return 0 if child is None else child.starts


def _tools_of(documents: DirectoryDocuments, key: ServerKey) -> tuple[str, ...]:
    catalog = documents.catalog(key)
    if catalog is None:
        return ()
    names = sorted(tool.shown_name for tool in catalog.tools if tool.enabled)
    prefix = catalog.prefix
    return tuple(names if prefix is None else (exposed_name(prefix, name) for name in names))


def _addresses(options: UpOptions, gateway: Gateway, model: str, token: str) -> Addresses:
    host = "127.0.0.1" if options.host in (EVERY_ADDRESS, EVERY_IPV4_ADDRESS) else options.host
    scheme = "http" if gateway.settings.listening.tls.cert is None else "https"
    root = f"{scheme}://{authority(host, gateway.port)}"
    models = f"{root}/v1" if gateway.models.current.providers else ""
    client_files = "" if options.paths or options.documents or options.litellm else own_files(Path.home(), Path.cwd())
    metrics = f"http://{authority(host, gateway.metrics_port)}/metrics"
    wants_key = not gateway.endpoint.identities.answers_anybody
    console = f"{root}/console/{'' if wants_key else f'?token={token}'}" if gateway.settings.console.enabled else ""
    signs_in = wants_key and gateway.authorization is not None
    return Addresses(
        f"{root}/mcp",
        metrics,
        models,
        model,
        client_files_command=client_files,
        console=console,
        wants_key=wants_key,
        key_file=gateway.settings.identity.api_keys,
        sign_in=gateway.settings.identity.public_url.rstrip("/") + "/mcp" if signs_in else "",
    )


def _stop_on_signals(stop: asyncio.Event, abandon: Callable[[], None]) -> None:
    def on_signal() -> None:
        if stop.is_set():
            abandon()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)


def _abandon_handler(display: Display, temporary: Folders | None) -> Callable[[], None]:
    """Handler of a second signal, which exits at once without ending the children: the kernel and the process that
    guards their process groups end them.
    """

    def abandon() -> None:
        display.__exit__(None, None, None)
        if temporary is not None:
            shutil.rmtree(temporary.documents.parent, ignore_errors=True)
        sys.stdout.flush()
        os._exit(FAILED)

    return abandon
