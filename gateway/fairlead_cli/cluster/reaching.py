"""Connection to the API server of a cluster, with its errors as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from fairlead_cli.failure import Failure, needs

if TYPE_CHECKING:
    from fairlead_kube.client import Kube

Result = TypeVar("Result")


def on_cluster(kubeconfig: str, work: Callable[[Kube], Awaitable[Result]], *, rights: str) -> Result:
    """Connect by `kubeconfig`, KUBECONFIG, ~/.kube/config or the pod's ServiceAccount, run `work`, disconnect.

    `rights` is appended to the message of a 403: which rights are needed. Raises Failure.
    """
    with needs("operator"):
        from fairlead_kube.client import Kube
        from fairlead_kube.connection import NoCluster, load_configuration
        from fairlead_kube.errors import ApiError

    async def run() -> Result:
        kube = Kube.connect(await load_configuration(kubeconfig))
        try:
            return await work(kube)
        except ApiError as error:
            raise Failure(error.sentence(kube.host, rights)) from error
        finally:
            await kube.aclose()

    try:
        return asyncio.run(run())
    except NoCluster as error:
        raise Failure(str(error)) from error
