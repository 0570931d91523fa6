"""The operator as a process: `python -m fairlead_operator` and `fairlead operator`.

`run` sets up signal handlers, logs, and the port for probes and metrics. The exit code is 0 after SIGTERM or SIGINT; if
the operator cannot start, it is 1, with one sentence on standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from fairlead_api.bad_setting import BadSetting
from fairlead_api.logs import set_up
from fairlead_kube.client import Json, Kube
from fairlead_kube.connection import NoCluster, load_configuration
from fairlead_kube.errors import ApiError
from fairlead_mcp.addresses import authority
from fairlead_operator.app import Dependencies, Operator, build
from fairlead_operator.interpreter import keep_loop_responsive
from fairlead_operator.kube.installationsecret import InstallationSecret
from fairlead_operator.kube.owners import account_references, service_references
from fairlead_operator.kube.preflight import RIGHTS, CannotStart, check_cluster
from fairlead_operator.probes import serve
from fairlead_operator.settings import ReleaseSettings, Settings

logger = logging.getLogger(__name__)

MAX_OPEN_FILES: Final = 65_536
"""Limit of open files that the operator sets, if the hard limit allows."""
STOP_SECONDS: Final = 15.0
"""Seconds from a signal until the process ends at the latest."""


def run(settings: Settings) -> int:
    """Run until a signal; return the exit code."""
    try:
        set_up(settings.log.format, settings.log.level)
        _allow_many_connections()
        asyncio.run(_run(settings))
    except (CannotStart, NoCluster) as error:
        print(f"fairlead operator: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"fairlead operator: {error}", file=sys.stderr)
        return 1
    except Exception:
        logger.exception("the operator ends because of an unexpected error")
        return 1
    return 0


async def _run(settings: Settings) -> None:
    """Check the cluster, then run the operator, with its port for probes and metrics, until a signal.

    Raises CannotStart.
    """
    configuration = await load_configuration(settings.release.kubeconfig)
    release, metrics = settings.release, settings.metrics
    kube = Kube.connect(configuration)
    try:
        await check_cluster(kube, release.release_namespace, release.watch_namespace, release.secrets_read_in)
        services = await service_references(kube, release.release_namespace, release.owner_service)
        if release.installation_secret:
            settings = settings.replace(pull_token=await _pull_token(kube, release, services))
    finally:
        await kube.aclose()
    operator = build(settings, configuration, dependencies=Dependencies(end_process=_end_process, owners=services))
    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(serve(operator, metrics.address, metrics.port))
        except OSError as error:
            address = authority(metrics.address, metrics.port)
            message = f"cannot listen on {address} ({error.strerror}): set FAIRLEAD_METRICS_PORT to a free port"
            raise CannotStart(message) from error
        logger.info("metrics and probes on port %d", port)
        keep_loop_responsive()
        await _until_signal(operator)


async def _pull_token(kube: Kube, release: ReleaseSettings, services: Sequence[Json]) -> str:
    """The pull token of the installation's Secret, which is created if it is missing. Raises CannotStart."""
    namespace, name = release.release_namespace, release.installation_secret
    owners = [*account_references(release.owner_token, namespace), *services]
    try:
        return await InstallationSecret(kube, namespace, name, owners).ensure()
    except ApiError as error:
        raise CannotStart(error.sentence(kube.host, f"Grant {RIGHTS}.")) from error


async def _until_signal(operator: Operator) -> None:
    """Run the operator until SIGTERM or SIGINT cancels it; raise its error if it ends by itself."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(operator.run(), name="operator")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def _allow_many_connections() -> None:
    """Raise the limit of open files: the operator keeps one connection per server, and the usual limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _end_process() -> None:
    """End the process at once, because the leader's tasks hang and another operator is about to lead."""
    logger.critical("the leader's tasks did not end after the Lease was lost, so the process ends now")
    os._exit(1)


def main() -> None:
    """Entry point of `python -m fairlead_operator`."""
    try:
        settings = Settings.from_env()
    except BadSetting as error:
        print(f"fairlead operator: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(run(settings))


if __name__ == "__main__":
    main()
