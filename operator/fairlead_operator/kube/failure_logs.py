"""Finds the line of a pod's log that explains why a stdio server's process failed, with the server's secrets masked.

A stdio server in a pod has one process per connection, in a container that keeps running when the process exits. The
status of the container therefore does not show the exit, and the connection carries only standard output. The reason is
on standard error, which is only in the pod's log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError
from fairlead_mcp.diagnosis import MOST_LINES, diagnosis
from fairlead_mcp.masking import Mask
from fairlead_mcp.printed import printable
from fairlead_operator.server.kube_manifests import CONTAINER

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 16_384
"""Maximum number of bytes that are read from the end of a log."""
MAX_AGE_S: Final = 60
"""Maximum age in seconds of the log lines that are read; older lines are from another process."""


class FailureLogs:
    """Reads logs of stdio servers. `newest_pod` returns the name of a server's newest pod, empty for none;
    `secret_values` returns the values of the Secrets in its environment.
    """

    def __init__(
        self, kube: Kube, newest_pod: Callable[[ServerKey], str], secret_values: Callable[[McpServer], frozenset[str]]
    ) -> None:
        self._kube = kube
        self._newest_pod = newest_pod
        self._secret_values = secret_values

    async def read(self, server: McpServer) -> str:
        """The log line that explains the failure; empty without one, or if the log cannot be read now. Never raises."""
        pod = self._newest_pod(server.key)
        if not pod:
            return ""
        try:
            log = await self._kube.log(
                server.metadata.namespace, pod, CONTAINER, lines=MOST_LINES, size=MOST_BYTES, seconds=MAX_AGE_S
            )
        except ApiError as error:
            logger.info("the log of %s cannot be read: %s", server.key, error)
            return ""
        spec_variables = {variable.name: variable.value for variable in server.spec.env if variable.value}
        masks = (
            Mask.of_values(self._secret_values(server)),
            Mask.of_process(_arguments(server), spec_variables),
        )
        # Lines are masked before one is chosen and cut, so that no part of a secret remains at its end.
        return diagnosis(_mask(printable(line), masks) for line in log.splitlines())


def _mask(line: str, masks: Iterable[Mask]) -> str:
    for mask in masks:
        line = mask.text(line)
    return line


def _arguments(server: McpServer) -> list[str]:
    """Arguments of the server's program, from its McpServer."""
    image, package = server.spec.image, server.spec.package
    if package is not None:
        return package.args
    return [] if image is None else [*(image.command or ()), *image.args]
