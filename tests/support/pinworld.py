"""One pinned server with its documents in memory, reconciled by one operator after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import Document, catalog_name, decode, pins_name
from fairlead_api.documents.pins import Pins
from fairlead_api.meta import ANNOTATION_APPROVE, ServerKey
from fairlead_api.reports import AskedApproval
from fairlead_api.v1alpha1.common import Condition
from fairlead_operator.clocks import Clocks
from fairlead_operator.discovery.state import DiscoveryOptions
from fairlead_operator.pinning.approvals import PendingApprovals
from fairlead_operator.pinning.definitions import PinnedDefinitions
from fairlead_operator.reconciler import Reconciler, ReconcilerObserver, ReconcilerOptions, ReconcilerParts
from fairlead_operator.server.prefixes import Prefixes
from fairlead_operator.workqueue import ItemBackoff
from operatorfakes import (
    NOW,
    MemoryDocuments,
    MemoryPlatform,
    Script,
    ScriptedConnector,
    mcp_server,
    tool_named,
    until,
)

KEY = ServerKey("team", "demo")
AT_ONCE = ReconcilerOptions(
    discovery=DiscoveryOptions(
        floor=0.0, prompt=0.0, retry=ItemBackoff(first=0.0, limit=0.0), hold=ItemBackoff(0.0, 0.0)
    )
)


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {**tool_named(name), "description": description, **more}


@dataclass
class World:
    """One pinned server. Operators are replaced; the documents stay."""

    script: Script = field(default_factory=Script)
    platform: MemoryPlatform = field(default_factory=MemoryPlatform)
    documents: MemoryDocuments = field(default_factory=MemoryDocuments)
    held: dict[ServerKey, int | None] = field(default_factory=dict)
    approvals: PendingApprovals = field(default_factory=PendingApprovals)
    reconciler: Reconciler | None = None

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[None]:
        self.reconciler = Reconciler(
            ReconcilerParts(
                platform=self.platform,
                documents=self.documents,
                connector=ScriptedConnector({KEY: self.script}),
                prefixes=Prefixes("name"),
                definitions=PinnedDefinitions(self.documents, self.held.__setitem__, lambda: NOW, self.approvals),
            ),
            ReconcilerObserver(enqueue=lambda key: None),
            AT_ONCE,
            Clocks(now=lambda: NOW),
        )
        try:
            yield
        finally:
            await self.reconciler.aclose()
            self.reconciler = None

    async def look(self) -> None:
        assert self.reconciler is not None
        await self.reconciler.reconcile(KEY)

    async def answer(self, *tools: dict[str, Any]) -> None:
        """Change the server's list, and wait until the operator has read it."""
        assert self.reconciler is not None
        if tools:
            self.script.tools = list(tools)
        connections = self.script.connections
        await self.look()
        self.reconciler.refresh(KEY)
        await self.look()
        await until(lambda: self.script.connections > connections)
        await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        await self.look()

    def declare(self, *, approve: str = "", **spec: Any) -> None:
        before = self.platform.servers.get(KEY)
        server = mcp_server(**{"pin": True, "discovery": {"interval": "30s"}, **spec})
        metadata = server.metadata.model_copy(update={"annotations": {ANNOTATION_APPROVE: approve} if approve else {}})
        status = before.status if before is not None else server.status
        self.platform.declare(server.model_copy(update={"metadata": metadata, "status": status}))

    def catalog(self) -> Catalog | None:
        document = self._document(catalog_name(KEY))
        assert document is None or isinstance(document, Catalog)
        return document

    def pins(self) -> Pins | None:
        document = self._document(pins_name(KEY))
        assert document is None or isinstance(document, Pins)
        return document

    def _document(self, name: str) -> Document | None:
        blob = self.documents.blobs.get(name)
        return None if blob is None else decode(blob.data["document.json"].encode())

    def descriptions(self) -> dict[str, str]:
        catalog = self.catalog()
        assert catalog is not None
        return {entry.name: msgspec.json.decode(entry.definition)["description"] for entry in catalog.tools}

    def condition(self, kind: str) -> Condition:
        condition = self.platform.servers[KEY].status.condition(kind)
        assert condition is not None, kind
        return condition

    def ask(self, approval: str, by: str = "ann") -> None:
        """Approve a definition, as an administrator does at a gateway. `by`: name of the administrator."""
        self.approvals.add([AskedApproval(KEY.namespace, KEY.name, approval, by)])

    def held_hash(self) -> str:
        pins = self.pins()
        assert pins is not None
        return pins.held_hash
