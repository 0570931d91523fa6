"""Seals the ids of tasks: which server, pod and tool a task belongs to, for the principal that created it (SEP-2663).

An id may act as a bearer token, and servers behind a gateway with one credential cannot tell its clients apart: the
gateway alone knows whose task it is. All of that is in the id that the client gets, with a code over it, so that
nothing is kept: any replica with the same key takes it, also after a restart. The server's own id is not a secret (its
keys of `inputRequests` may repeat it), and is never taken from a client.
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
"""Characters of a server's own id of a task."""
MAX_SEALED: Final = 8192
_PREFIX: Final = "fairlead-task."

_decode = msgspec.json.Decoder(tuple[str, str, str, str]).decode


class TaskIds:
    """Seals and opens ids with one key."""

    def __init__(self, key: bytes = b"") -> None:
        self._seal = Seal(key, "tasks")

    def seal(self, task_id: str, server: ServerKey, tool: str, identity: Identity) -> str:
        """Id for the client; `task_id` is the server's, with the tag of its pod. The same for the same task. Raises
        NotMcp for an id that is too long.
        """
        if not 0 < len(task_id) <= MAX_ID:
            raise NotMcp(f"the id of the task has {len(task_id)} characters; 1 to {MAX_ID} are taken")
        members = msgspec.json.encode((server.namespace, server.name, tool, task_id))
        return _PREFIX + self._seal.token(identity.owner, members)

    def open(self, sealed: str, identity: Identity) -> TaskRef | None:
        """The task of an id; None where it was not sealed with this key for this principal."""
        if len(sealed) > MAX_SEALED or not sealed.startswith(_PREFIX):
            return None
        members = self._seal.members(identity.owner, sealed.removeprefix(_PREFIX))
        if members is None:
            return None
        try:
            namespace, name, tool, task_id = _decode(members)
        except msgspec.DecodeError:
            return None
        own, pod = affinity.split(task_id)
        return TaskRef(sealed, ServerKey(namespace, name), tool, own, pod)
