"""Sealed task ids: tokens with the server, pod and tool of a task, bound to the principal that created it (SEP-2663).

Servers may accept a task id from anybody who knows it, and cannot tell the gateway's clients apart: only the gateway
knows the owner of a task. The sealed id contains server, pod, tool and the server's own task id with a MAC, so nothing
is stored: every replica with the same key accepts the sealed id, also after a restart. The server's own id is not
secret (keys of `inputRequests` may contain it), but is never accepted from a client.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.sealed.seals import Seal
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.core.task import TaskRef
from fairlead_gateway.upstream import affinity
from fairlead_mcp.errors import NotMcp

MAX_ID: Final = 1024
"""Limit on the characters of a server's own task id."""
MAX_SEALED: Final = 8192
"""Limit on the characters of a sealed task id."""
_PREFIX: Final = "fairlead-task."

_decode = msgspec.json.Decoder(tuple[str, str, str, str]).decode


class TaskIds:
    """Seals and opens task ids with one key."""

    def __init__(self, key: bytes = b"") -> None:
        self._seal = Seal(key, "tasks")

    def seal(self, task_id: str, server: ServerKey, tool: str, identity: Identity) -> str:
        """The sealed id for the client, always equal for the same task.

        `task_id` is the server's own id, with the tag of the task's pod. Raises NotMcp if the id is empty or too long.
        """
        if not 0 < len(task_id) <= MAX_ID:
            raise NotMcp(f"the id of the server's task has {len(task_id)} characters; 1 to {MAX_ID} are allowed")
        members = msgspec.json.encode((server.namespace, server.name, tool, task_id))
        return _PREFIX + self._seal.token(identity.owner, members)

    def open(self, sealed_id: str, identity: Identity) -> TaskRef | None:
        """The task of a sealed id; None if the id is invalid for this key and principal."""
        if len(sealed_id) > MAX_SEALED or not sealed_id.startswith(_PREFIX):
            return None
        members = self._seal.members(identity.owner, sealed_id.removeprefix(_PREFIX))
        if members is None:
            return None
        try:
            namespace, name, tool, task_id = _decode(members)
        except msgspec.DecodeError:
            return None
        server_task_id, pod = affinity.split(task_id)
        return TaskRef(sealed_id, ServerKey(namespace, name), tool, server_task_id, pod)
