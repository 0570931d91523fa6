"""Chooses the definitions to serve from a server's listing: on a pinned server, changed definitions are held back.

Approved and held-back definitions are stored in a document of their own, not in the catalog: the catalog of a lost
server with `onDisconnect: Remove` is deleted, and the server's listing after its return must not count as its first
listing, which needs no approval. Callers make at most one call per server at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.documents.codec import UnreadableDocument, decode, encode, pins_name
from fairlead_api.documents.pins import APPROVALS, PINS, GivenApproval, Pinned, Pins, held_hash, pinnable_definitions
from fairlead_api.documents.store import pack
from fairlead_api.meta import ANNOTATION_APPROVE, ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_mcp.server_listing import RawListing
from fairlead_operator.discovery.catalog_build import CallAccess, build_catalog
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.discovery.gated_tools import complete_from_catalog
from fairlead_operator.pinning import cleanness, pin_decision
from fairlead_operator.pinning.approvals import PendingApprovals
from fairlead_operator.pinning.pin_decision import PinDecision
from fairlead_operator.ports import Announcement, ConditionVerdict, Documents
from fairlead_operator.publish.catalogs import labels_for
from fairlead_tools.definitions.scan import Finding, scan

logger = logging.getLogger(__name__)

MIN_THREAD_BYTES: Final = 256 << 10
"""Size of the definitions in bytes above which a listing is checked and scanned in a thread. Definitions of this size
take about 10 ms.
"""
OnHeldBack = Callable[[ServerKey, int | None], None]
"""Receives the number of a server's definitions that are held back; None if the server is not pinned or was deleted."""


def ignore_held_back(key: ServerKey, held_count: int | None) -> None:
    """Default for `OnHeldBack`: ignore the number."""


@dataclass(frozen=True)
class PinnedOffer:
    """The part of a listing that may be served, the findings about the whole listing, and announcements."""

    catalog: Catalog
    findings: ListingFindings
    announcements: tuple[Announcement, ...] = ()


@dataclass(frozen=True)
class _ScanResult:
    """Suspicious texts in the listing with this hash."""

    hash: str
    findings: tuple[Finding, ...] = ()


async def _catalog(server: McpServer, listing: RawListing, access: CallAccess) -> tuple[Catalog, ListingFindings]:
    """Call `build_catalog`, for large listings in a thread, because unusual definitions can take a tenth of a
    second.
    """
    if listing.size <= MIN_THREAD_BYTES:
        return build_catalog(server, listing, access)
    return await asyncio.to_thread(build_catalog, server, listing, access)


class PinnedDefinitions:
    """Pinned and served definitions of all servers."""

    def __init__(
        self,
        documents: Documents,
        on_held_back: OnHeldBack,
        now: Callable[[], datetime],
        pending_approvals: PendingApprovals | None = None,
    ) -> None:
        """`pending_approvals` are the approvals of administrators of gateways, if the installation accepts them."""
        self._documents = documents
        self._pending_approvals = PendingApprovals() if pending_approvals is None else pending_approvals
        self._now = now
        self._on_held_back = on_held_back
        self._pins: dict[ServerKey, Pins] = {}
        """Last stored pins of each pinned server."""
        self._scan_results: dict[ServerKey, _ScanResult] = {}
        """Result of the last scan of each server's definitions."""
        self._verdicts: dict[ServerKey, tuple[ConditionVerdict | None, ConditionVerdict]] = {}
        """Verdicts Approved (None for a server that is not pinned) and DefinitionsClean of each server."""

    def verdicts(self, key: ServerKey) -> tuple[ConditionVerdict | None, ConditionVerdict | None]:
        """Verdicts for the conditions `Approved` and `DefinitionsClean` from the last listing; None before the first
        listing.
        """
        return self._verdicts.get(key, (None, None))

    def approvals(self, key: ServerKey) -> tuple[GivenApproval, ...]:
        """The last approvals of a server, newest first."""
        pins = self._pins.get(key)
        return () if pins is None else pins.approvals

    async def offer(
        self, server: McpServer, listing: RawListing, access: CallAccess, published_catalog: Catalog | None
    ) -> PinnedOffer:
        """The catalog of a listing, without its definitions that are held back. Raises PLATFORM_ERRORS.

        `published_catalog` is the catalog that was served before. If the server has no pins yet, the definitions in
        that catalog count as approved, because users have seen them.
        """
        key, listing = server.key, complete_from_catalog(listing, published_catalog)
        catalog, findings = await _catalog(server, listing, access)
        listed_definitions = pinnable_definitions(catalog)
        suspicious, announcements = await self._scan(key, listed_definitions)
        approved_verdict: ConditionVerdict | None = None
        if server.spec.pin:
            decision, new_announcements = await self._decide(server, listed_definitions, published_catalog)
            if decision.in_force != listed_definitions:
                catalog, _ = await _catalog(server, pin_decision.restore(listing, decision.in_force), access)
            catalog = msgspec.structs.replace(catalog, held=len(decision.held))
            suspicious_identities = {(finding.sort, finding.name) for finding in suspicious}
            suspicious_held = [
                definition for definition in decision.held if definition.identity in suspicious_identities
            ]
            approved_verdict = pin_decision.verdict(decision, len(suspicious_held))
            announcements += new_announcements
        else:
            await self._forget_pins(key)
        self._verdicts[key] = approved_verdict, cleanness.verdict(suspicious)
        return PinnedOffer(catalog, findings, announcements)

    async def drop(self, key: ServerKey) -> None:
        """Forget a deleted server and withdraw its pins. Raises PLATFORM_ERRORS."""
        self._scan_results.pop(key, None)
        self._verdicts.pop(key, None)
        self._pending_approvals.forget(key)
        await self._forget_pins(key)

    async def _forget_pins(self, key: ServerKey) -> None:
        self._pins.pop(key, None)
        self._on_held_back(key, None)
        if pins_name(key) in await self._documents.heads():
            await self._documents.withdraw(pins_name(key))

    async def _scan(
        self, key: ServerKey, listed_definitions: tuple[Pinned, ...]
    ) -> tuple[tuple[Finding, ...], tuple[Announcement, ...]]:
        """Suspicious texts of a listing, and an announcement if they changed; an unchanged listing is not scanned
        again.
        """
        listing_hash = held_hash(listed_definitions)
        last_result = self._scan_results.get(key)
        if last_result is not None and last_result.hash == listing_hash:
            return last_result.findings, ()
        size = sum(memoryview(definition.definition).nbytes for definition in listed_definitions)
        findings = (
            scan(listed_definitions) if size <= MIN_THREAD_BYTES else await asyncio.to_thread(scan, listed_definitions)
        )
        self._scan_results[key] = _ScanResult(listing_hash, findings)
        if not findings or (last_result is not None and last_result.findings == findings):
            return findings, ()
        verdict = cleanness.verdict(findings)
        return findings, (Announcement("Warning", verdict.reason, verdict.message),)

    async def _decide(
        self, server: McpServer, listed_definitions: tuple[Pinned, ...], published_catalog: Catalog | None
    ) -> tuple[PinDecision, tuple[Announcement, ...]]:
        """Decide about the listed definitions, and store the decision."""
        pins = await self._current_pins(server)
        known_to_users = listed_definitions if published_catalog is None else pinnable_definitions(published_catalog)
        approved_definitions = known_to_users if pins is None else pins.approved
        approvals = {
            server.metadata.annotations.get(ANNOTATION_APPROVE, "").strip(): "",
            **self._pending_approvals.of_server(server.key),
        }
        if (spec_approval := server.spec.approval) is not None:
            approvals[spec_approval.hash] = spec_approval.by
        decision = pin_decision.decide(listed_definitions, approved_definitions, approvals)
        history = () if pins is None else pins.approvals
        approvers = ", ".join(sorted({approvals[hash_] for hash_ in decision.used_hashes} - {""}))
        if decision.newly_approved:
            now_text = self._now().isoformat(timespec="seconds")
            approval = GivenApproval(
                hash=decision.approval, at=now_text, by=approvers, definitions=decision.newly_approved
            )
            history = (approval, *history)[:APPROVALS]
        await self._store_pins(server, decision, history)
        self._pending_approvals.forget(server.key)
        self._on_held_back(server.key, len(decision.held))
        return decision, _announcements(server.key, pins, decision, approvers)

    async def _current_pins(self, server: McpServer) -> Pins | None:
        """Pins of the server with this UID, from memory if possible, otherwise from the stored document."""
        pins = self._pins.get(server.key) or await self._stored_pins(server.key)
        return pins if pins is not None and pins.uid == server.metadata.uid else None

    async def _stored_pins(self, key: ServerKey) -> Pins | None:
        data = await self._documents.read(pins_name(key))
        if data is None:
            return None
        try:
            document = decode(data)
        except UnreadableDocument as error:
            logger.warning("the pins of %s cannot be read and are replaced by its catalog: %s", key, error)
            return None
        return document if isinstance(document, Pins) and document.key == key else None

    async def _store_pins(self, server: McpServer, decision: PinDecision, approvals: tuple[GivenApproval, ...]) -> None:
        key, uid = server.key, server.metadata.uid
        pins = Pins(
            namespace=key.namespace,
            name=key.name,
            uid=uid,
            approved=_sort(decision.approved),
            held=_sort(decision.held),
            approvals=approvals,
        )
        blobs = pack(pins_name(key), PINS, encode(pins), labels_for(key, uid))
        if self._pins.get(key) != pins or not await self._documents.holds(blobs):
            await self._documents.publish(blobs)
        self._pins[key] = pins


def _sort(definitions: tuple[Pinned, ...]) -> tuple[Pinned, ...]:
    """Sort definitions, so that another order in the listing is not a change."""
    return tuple(sorted(definitions, key=lambda definition: definition.identity))


def _announcements(
    key: ServerKey, previous_pins: Pins | None, decision: PinDecision, approvers: str
) -> tuple[Announcement, ...]:
    """Announcement of an approval, or of other definitions that are held back than `previous_pins`; empty if nothing
    changed.
    """
    if decision.newly_approved:
        by_whom = f" by {approvers}" if approvers else ""
        note = f"{decision.newly_approved} definitions were approved{by_whom} and are now in force"
        return (Announcement("Normal", "ChangesApproved", note),)
    announced_hash = previous_pins.held_hash if previous_pins is not None else ""
    is_new = bool(decision.held) and held_hash(decision.held) != announced_hash
    return (pin_decision.announcement(decision, key),) if is_new else ()
