"""The gateway as a process: `python -m fairlead_app`, and `fairlead gateway`.

`run` sets up the event loop, signals and logs. Its exit code is 0 after SIGTERM or SIGINT. If the gateway cannot start,
the exit code is 1, with an error message on standard error.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from fairlead_api.bad_setting import BadSetting
from fairlead_api.extras import install_command
from fairlead_api.logs import set_up
from fairlead_app.authentication import build_trust
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, Runtime, compose
from fairlead_app.configured_models import ConfiguredModels
from fairlead_app.gateway import Gateway
from fairlead_app.settings import InstallationSettings, Settings
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from fairlead_gateway.catalog.pins import DirectoryPins
from fairlead_gateway.custom.load import load
from fairlead_gateway.endpoint.free_ports import suggest_ports
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_gateway.endpoint.settings import ListeningSettings
from fairlead_gateway.heap import Heap
from fairlead_kube.errors import ApiError, Forbidden, Unauthorized
from fairlead_mcp import processes
from fairlead_mcp.addresses import authority
from fairlead_mcp.host import ChildHost
from fairlead_tools.handlers.tools import CustomTools

if TYPE_CHECKING:
    from fairlead_kube.client import Kube

log = logging.getLogger("fairlead_gateway")

PROBE_SECONDS: Final = 10.0
"""Timeout of the access check at the API server, in seconds."""
SWITCH_SECONDS: Final = 0.0001
"""Switch interval of threads in seconds. A thread that compiles schemas or formats metrics can delay the event loop by
this interval, several times per call. Python's default interval is fifty times as long.
"""


class StartFailed(Exception):
    """The gateway cannot start. The message is one sentence with the reason and the remedy."""


def run(settings: Settings) -> int:
    """Run the gateway until SIGTERM or SIGINT. Returns the exit code."""
    set_up(settings.records.log.format, settings.records.log.level)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        uvloop.run(_run(settings))
    except StartFailed as error:
        print(f"fairlead gateway: {error}", file=sys.stderr)
        return 1
    except Exception:
        log.exception("The gateway ends because of an unexpected error")
        return 1
    return 0


async def _run(settings: Settings) -> None:
    try:
        models = ConfiguredModels.of_file(settings.models.routes)
    except BadSetting as error:
        raise StartFailed(str(error)) from error
    async with _open_sources(settings.installation) as (catalog, servers, kube):
        if kube is not None and settings.identity.anonymous is None:
            settings = settings.replace(anonymous="deny")
        try:
            gateway = compose(
                settings,
                catalog,
                msgspec.structs.replace(servers, custom=_custom_tools(settings.calls.custom.modules)),
                models=models,
                trust=build_trust(settings, kube),
                runtime=Runtime(heap=Heap(), kube=kube),
            )
        except BadSetting as error:
            raise StartFailed(str(error)) from error
        stop_event = asyncio.Event()
        # SIGHUP would end the process by default; it is ignored, because log rotation may send it
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop_event.set)
        try:
            await gateway.start()
        except PortTaken as error:
            raise StartFailed(f"{error}: {_suggest_ports(error, settings.listening)}") from error
        _announce(gateway)
        drain, grace = settings.listening.drain, settings.listening.grace
        try:
            await stop_event.wait()
        finally:
            log.info("Stopping: draining for %g s, then waiting up to %g s for calls in flight", drain, grace)
            await gateway.stop()


def _suggest_ports(error: PortTaken, settings: ListeningSettings) -> str:
    cause = error.__cause__
    if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
        return suggest_ports(settings.address, {"--port": settings.port, "--metrics-port": settings.metrics_port})
    return "choose another with --port or --metrics-port"


def _custom_tools(modules: Sequence[str]) -> CustomTools:
    loaded = load(modules)
    for problem in loaded.problems:
        log.error("%s", problem)
    return loaded.tools


@asynccontextmanager
async def _open_sources(settings: InstallationSettings) -> AsyncIterator[tuple[CatalogFeed, ServerAccess, Kube | None]]:
    """Open the sources of documents and credentials, the host of child processes, and the Kubernetes client, if any.

    Raises StartFailed.
    """
    if settings.documents is not None:
        directory = settings.documents
        if not await asyncio.to_thread(directory.is_dir):
            raise StartFailed(f"{directory} is not a directory: set --documents to a directory with documents")
        processes.become_subreaper()
        children = ChildHost()
        try:
            credentials = DirectoryCredentials(settings.credentials or directory / "credentials")
            servers = ServerAccess(credentials=credentials, children=children, shared_children=False)
            yield CatalogFeed(source=DirectorySource(directory), pins=DirectoryPins(directory)), servers, None
        finally:
            await children.aclose()
        return
    try:  # imported here, because the Kubernetes client is optional, and its import takes a second
        from fairlead_gateway.catalog.kube import KubeCredentials, KubePins, KubeSource
        from fairlead_kube.client import Kube
        from fairlead_kube.connection import NoCluster, load_configuration
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("fairlead"):
            raise
        raise StartFailed(
            f"catalogs of a cluster need the Python package {error.name}, which is missing: "
            f"{install_command('gateway')}; off a cluster, name a directory of documents with --documents"
        ) from error

    namespace = settings.release_namespace
    try:
        configuration = await load_configuration(
            settings.kubeconfig, local_advice="off a cluster, name a directory of documents with --documents"
        )
    except NoCluster as error:
        raise StartFailed(str(error)) from error
    kube = Kube.connect(configuration)
    try:
        await _probe(kube, namespace)
        secrets = KubeCredentials(kube, namespace, settings.credentials)
        catalog = CatalogFeed(source=KubeSource(kube, namespace), pins=KubePins(kube, namespace), closed=True)
        yield catalog, ServerAccess(credentials=secrets, shared_children=False), kube
    finally:
        await kube.aclose()


async def _probe(kube: Kube, namespace: str) -> None:
    """Check access to the API server. Raises StartFailed if it denies access.

    If the API server cannot be reached, the gateway starts with the cached catalog.
    """
    from fairlead_gateway.catalog.kube import documents_of

    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await kube.probe(documents_of(namespace))
    except (Unauthorized, Forbidden) as error:
        rights = "Grant the gateway's service account `list` and `watch` on ConfigMaps and `get` on Secrets there."
        raise StartFailed(error.sentence(kube.host, rights)) from error
    except ApiError as error:
        log.warning("Starting without the API server: %s", error.sentence(kube.host))
    except TimeoutError:
        log.warning("Starting without the API server: %s does not respond", kube.host)


def _announce(gateway: Gateway) -> None:
    listening = gateway.settings.listening
    scheme = "http" if listening.tls.cert is None else "https"
    address = authority(listening.address, gateway.port)
    log.info("MCP on %s://%s/mcp, metrics on port %d", scheme, address, gateway.metrics_port)


def main() -> int:
    """Run the gateway with settings from the environment."""
    try:
        return run(Settings.from_env())
    except (BadSetting, ValueError) as error:
        print(f"fairlead gateway: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
