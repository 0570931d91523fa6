"""Work on the API server of a cluster, and its refusals as sentences for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from fairlead_cli.failure import Failure, needs

if TYPE_CHECKING:
    from fairlead_kube.client import Kube

Result = TypeVar("Result")


def on_cluster(kubeconfig: str, work: Callable[[Kube], Awaitable[Result]], *, rights: str) -> Result:
    """Connect by `kubeconfig`, KUBECONFIG, ~/.kube/config or the pod's ServiceAccount, do `work`, disconnect.

    `rights` ends the sentence of a refusal: who may do this, or what to grant. Raises Failure.
    """
    with needs("operator"):
        from fairlead_kube.client import Kube
        from fairlead_kube.connection import NoCluster, load_configuration
        from fairlead_kube.errors import ApiError, Forbidden, Unauthorized, Unavailable

    host = ""

    async def run() -> Result:
        nonlocal host
        configuration = await load_configuration(kubeconfig)
        host = str(configuration.host)
        kube = Kube.connect(configuration)
        try:
            return await work(kube)
        finally:
            await kube.aclose()

    try:
        return asyncio.run(run())
    except NoCluster as error:
        raise Failure(str(error)) from error
    except Unauthorized as error:
        raise Failure(f"the API server at {host} does not accept the credentials: renew the kubeconfig") from error
    except Forbidden as error:
        raise Failure(f"the API server at {host} refuses it ({error}). {rights}") from error
    except Unavailable as error:
        raise Failure(f"the API server at {host} cannot be reached ({error}): check that it runs") from error
    except ApiError as error:
        raise Failure(f"the API server at {host} refuses it ({error})") from error
