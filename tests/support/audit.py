"""Audit log of an API server: who wrote what, in the order in which the writes were done.

Tests that no other client wrote read this log, not the writers' counters. `controlplane` enables the log on request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["*"]
- level: Metadata
  verbs: [watch]
  omitStages: [ResponseComplete]
- level: Metadata
  omitStages: [ResponseStarted]
"""
READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True)
class Write:
    """One request; `status` is the status of its answer."""

    user: str
    verb: str
    resource: str
    """Plural name with the subresource: `mcpservers/status`."""
    namespace: str
    name: str
    status: int
    at: str
    """Time of the answer, RFC 3339."""
    group: str = ""

    @property
    def done(self) -> bool:
        return self.status < 300

    def __str__(self) -> str:
        return f"{self.at} {self.user} {self.verb} {self.resource} {self.namespace}/{self.name}: {self.status}"


class AuditLog:
    """The log of one API server, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._policy = folder / "audit-policy.yaml"
        self._log = folder / "audit.log"
        self._policy.write_text(POLICY)
        self._log.touch()

    def flags(self) -> list[str]:
        """Arguments of the API server that enable the log."""
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"]

    def mark(self) -> int:
        """Current end of the log, as a position."""
        return self._log.stat().st_size

    def writes(self, since: int = 0) -> list[Write]:
        """All writes that were answered after the position `since`, oldest first, without access reviews."""
        return [request for request in self.requests(since) if request.verb not in READING]

    def requests(self, since: int = 0) -> list[Write]:
        """All requests for resources that were answered after the position `since`, oldest first, without access
        reviews.
        """
        with self._log.open("rb") as log:
            log.seek(since)
            return list(_requests(log.read().splitlines(keepends=True)))


def _requests(lines: Iterable[bytes]) -> Iterator[Write]:
    for line in lines:
        if not line.endswith(b"\n"):
            return  # the last line is still being written
        event = json.loads(line)
        target = event.get("objectRef") or {}
        if not target or target.get("resource", "").endswith("reviews"):
            continue
        subresource = target.get("subresource")
        yield Write(
            user=event["user"]["username"],
            verb=event["verb"],
            group=target.get("apiGroup", ""),
            resource=target["resource"] + (f"/{subresource}" if subresource else ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            status=event.get("responseStatus", {}).get("code", 0),
            at=event["stageTimestamp"],
        )


def intruders(writes: Iterable[Write], lease: str) -> list[Write]:
    """Writes by users that did not hold `lease` at that moment, among all users that ever held it.

    The last writer of the Lease holds it: the API server accepts a write only from a client that has read the previous
    one.
    """
    writes = list(writes)
    holders = {write.user for write in writes if write.resource == "leases" and write.name == lease}
    holder = ""
    problems = []
    for write in writes:
        if not write.done or write.user not in holders:
            continue
        if write.resource == "leases" and write.name == lease:
            holder = write.user
        elif write.user != holder:
            problems.append(write)
    return problems
