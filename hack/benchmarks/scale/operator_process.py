"""The operator as `fairlead operator` runs it, in a world where every pod's host name leads to one address.

Started by `bench_operator` with `FAIRLEAD_*` in the environment and the port of the fake servers as its argument. The
one difference to the real program is how names are resolved: there is no cluster DNS, and there are no pods.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from fairlead_api.logs import set_up
from fairlead_kube.connection import load_configuration
from fairlead_operator.app import Dependencies, build
from fairlead_operator.probes import serve
from fairlead_operator.settings import Settings


async def main(port: int) -> None:
    """Run until SIGTERM."""

    async def resolve(host: str, wanted: int) -> list[tuple[str, int]]:
        return [("127.0.0.1", port)]

    settings = Settings.from_env()
    set_up(settings.log.format, settings.log.level)
    operator = build(
        settings, await load_configuration(settings.release.kubeconfig), dependencies=Dependencies(resolve=resolve)
    )
    async with serve(operator, "127.0.0.1", settings.metrics.port):
        task = asyncio.create_task(operator.run(), name="operator")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await asyncio.wait([task])


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
