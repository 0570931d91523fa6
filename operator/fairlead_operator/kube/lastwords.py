"""Last words of servers on stdio: the line of a pod's log that says why a process failed, without its secrets.

Such a process lives as long as a connection, inside of a container that goes on: its end is in no status, and the
connection carries its standard output alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from fairlead_api.documents.catalog import Credential
from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_kube.client import Kube
from fairlead_kube.errors import ApiError
from fairlead_mcp.diagnosis import MOST_LINES, diagnosis
from fairlead_mcp.masking import Mask
from fairlead_mcp.printed import printable
from fairlead_operator.server.manifests import CONTAINER

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 16_384
RECENT_S: Final = 60
"""Seconds: what was printed earlier is of another process."""


class LastWords:
    """Reads logs. `newest` gives the pod of a server that was made last, empty for none; `secrets` the values of the
    Secrets that its environment has.
    """

    def __init__(
        self, kube: Kube, newest: Callable[[ServerKey], str], secrets: Callable[[McpServer], frozenset[str]]
    ) -> None:
        self._kube = kube
        self._newest = newest
        self._secrets = secrets

    async def read(self, server: McpServer) -> str:
        """The line; empty where there is none, or where the log cannot be read now. Never raises."""
        pod = self._newest(server.key)
        if not pod:
            return ""
        try:
            log = await self._kube.log(
                server.metadata.namespace, pod, CONTAINER, lines=MOST_LINES, size=MOST_BYTES, seconds=RECENT_S
            )
        except ApiError as error:
            logger.info("%s: its last words are not known: %s", server.key, error)
            return ""
        written = {variable.name: variable.value for variable in server.spec.env if variable.value}
        masks = (
            Mask(Credential(env={value: value for value in self._secrets(server)})),
            Mask.of_process(_arguments(server), written),
        )
        # before a line is chosen and cut, or half a secret would be left of one at its end
        return diagnosis(_mask(printable(line), masks) for line in log.splitlines())


def _mask(line: str, masks: Iterable[Mask]) -> str:
    for mask in masks:
        line = mask.text(line)
    return line


def _arguments(server: McpServer) -> list[str]:
    """Words that its program is started with, as its manifest has them."""
    image, package = server.spec.image, server.spec.package
    if package is not None:
        return package.args
    return [] if image is None else [*(image.command or ()), *image.args]
