"""Assigns prefixes to servers. Does no I/O; keeps its tables in memory.

The prefix that a server claims is `spec.prefix`, else it follows from the server's namespace and name and one setting;
it does not depend on other servers. The first server to claim a prefix holds it; at the operator's start, the oldest
server counts as first. New servers, and servers that change their prefix, therefore break nothing that works. A holder
that has never listed a tool loses its prefix after `UNSERVED_S` to a claimant that has listed tools, because no agent
can know the names of the holder's tools yet.

Agents call a tool by its prefixed name. If another server got the prefix of a deleted server at once, agents could send
it arguments that were meant for the deleted server. The prefix therefore stays reserved for the deleted server's
namespace and name for a while; a server that is created again with them gets the prefix back.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from fairlead_api.documents.servers import PrefixOwner
from fairlead_api.meta import ANNOTATION_RELEASE_PREFIX, ServerKey
from fairlead_api.v1alpha1.causes import Cause, cause_of
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.ports import ConditionVerdict

logger = logging.getLogger(__name__)

PrefixStyle = Literal["name", "namespace-name"]

MAX_PER_NAMESPACE: Final = 32
"""Maximum reservations per namespace for deleted servers; beyond it, the reservation that ends first is dropped."""
MAX_RESERVATIONS: Final = 1024
"""Maximum reservations for deleted servers in all namespaces; beyond it, the namespace with the most reservations loses
one.
"""
SKEW_S: Final = 300.0
"""Minimum seconds for which a restored reservation lasts, because its end was written by another machine's clock."""
UNSERVED_S: Final = 600.0
"""Seconds after which a server that has never listed a tool loses its prefix to a server that has.

It equals the default `progressDeadlineSeconds` of a Deployment, so that a slow start loses no prefix.
"""


class Claim(NamedTuple):
    """One server's claim to a prefix. Claims sort by age, then namespace and name; the smallest one wins."""

    created: datetime
    key: ServerKey
    prefix: str


class Reservation(NamedTuple):
    """A prefix's reservation for one server, which holds the prefix even if other claimants are older."""

    key: ServerKey
    """The owner, existing or deleted."""
    until: str = ""
    """End in RFC 3339, for messages and the next leader; empty while the owner exists and claims the prefix."""
    ends_at: float | None = None
    """End by the monotonic clock, which clock corrections do not affect; None while the owner claims the prefix."""


def requested_prefix(server: McpServer, style: PrefixStyle) -> str:
    """The prefix that a server claims: `spec.prefix` or the default."""
    return default_prefix(server.key, style) if server.spec.prefix is None else server.spec.prefix


def default_prefix(key: ServerKey, style: PrefixStyle) -> str:
    """The prefix of a server without `spec.prefix`."""
    return key.name if style == "name" else f"{key.namespace}-{key.name}"


def holder_by_status(contenders: Iterable[McpServer]) -> ServerKey | None:
    """The only server among the claimants of a prefix whose status shows that it had the prefix; None if that is not
    certain.
    """
    served_servers = [server for server in contenders if server.status.tools is not None and not _is_refused(server)]
    unchanged_servers = [
        server for server in served_servers if server.status.observed_generation == server.metadata.generation
    ]
    holders = unchanged_servers or served_servers
    return holders[0].key if len(holders) == 1 else None


def _is_refused(server: McpServer) -> bool:
    """Whether the status says that another server has the prefix."""
    conflicted = server.status.condition(ConditionType.CONFLICTED)
    return conflicted is not None and cause_of(conflicted)[0] in (Cause.PREFIX_TAKEN, Cause.PREFIX_RESERVED)


class Prefixes:
    """The claims of all servers, and the reservations of deleted servers.

    `retention` is the number of seconds for which the prefix of a deleted server is reserved; 0 reserves nothing.
    `on_change` is called when `owners` has changed.
    """

    def __init__(
        self,
        style: PrefixStyle,
        retention: float = 0.0,
        *,
        on_change: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._style: PrefixStyle = style
        self._retention = retention
        self._on_change = on_change
        self._now = now
        self._monotonic = monotonic
        self._claims: dict[ServerKey, Claim] = {}
        self._by_prefix: dict[str, set[ServerKey]] = {}
        """Claimants of each prefix."""
        self._claimed_at: dict[ServerKey, float] = {}
        """Time of each claim on the monotonic clock."""
        self._served_claimants: set[ServerKey] = set()
        """Claimants that have had a catalog, so that agents may know the names of their tools."""
        self._reservations: dict[str, Reservation] = {}
        """Reservation of each reserved prefix."""
        self._start_phase_ended = False
        """Whether the start phase has ended: from then on, an older claimant does not take a prefix from its holder."""
        self._releases: dict[ServerKey, frozenset[str]] = {}
        """Prefixes that the annotation of each server releases for its whole namespace."""

    def claim(self, server: McpServer) -> set[ServerKey]:
        """Enter or update a server's claim. Returns the other servers whose prefix has a new holder."""
        key = server.key
        if server.status.tools is not None:
            self._served_claimants.add(key)
        affected = self._apply_releases(server)
        created = server.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
        claim = Claim(created, key, requested_prefix(server, self._style))
        if self._claims.get(key) != claim:
            affected |= self._replace_claim(claim)
        if self._reserved_for(claim.prefix) == key:
            affected |= self._update_reservation(claim.prefix, key)
        return affected - {key}

    def _replace_claim(self, claim: Claim) -> set[ServerKey]:
        """Replace the claim of a server. Returns the servers whose prefix may have a new holder."""
        key = claim.key
        affected = self._drop_claim(key)
        reserved_prefixes = [prefix for prefix, reservation in self._reservations.items() if reservation.key == key]
        for prefix in reserved_prefixes:
            if prefix != claim.prefix:
                affected |= self._drop_reservation(prefix, key)
        holder = self.holder(claim.prefix)
        contenders = self._by_prefix.setdefault(claim.prefix, set())
        contenders.add(key)
        self._claims[key] = claim
        self._claimed_at[key] = self._monotonic()
        if self.holder(claim.prefix) == key:
            if self._start_phase_ended and holder not in (None, key):
                self.confirm_holder(claim.prefix, holder)
            else:
                affected |= contenders
        return affected

    def contenders(self) -> dict[str, frozenset[ServerKey]]:
        """Claimants of each unreserved prefix that several servers claim."""
        return {
            prefix: frozenset(keys)
            for prefix, keys in self._by_prefix.items()
            if len(keys) > 1 and prefix not in self._reservations
        }

    def confirm_holder(self, prefix: str, holder: ServerKey) -> None:
        """Reserve a prefix for a claimant although another claimant is older."""
        self._reservations[prefix] = Reservation(holder)
        self._update_reservation(prefix, holder)
        self._on_change()

    def end_start_phase(self) -> None:
        """End the start phase, because all existing claims are entered: from now on, an older claimant does not take a
        prefix from its holder.
        """
        self._start_phase_ended = True

    def release(self, key: ServerKey, *, served: bool = False) -> set[ServerKey]:
        """Drop the claim of a deleted server. Returns the other servers that claim the prefix.

        The prefix stays reserved for the deleted server if it held the prefix and its tools were ever `served`.
        """
        claim = self._claims.get(key)
        if claim is None:
            return set()
        served = served or key in self._served_claimants or self._reserved_for(claim.prefix) == key
        keeps_prefix = self.holder(claim.prefix) == key and served
        is_released = self._is_released(key.namespace, claim.prefix)
        claimants = self._drop_claim(key)
        self._served_claimants.discard(key)
        self._releases.pop(key, None)
        if keeps_prefix and not is_released:
            claimants |= self.reserve(claim.prefix, key)
        else:
            self._drop_reservation(claim.prefix, key)
        return claimants - {key}

    def reserve(self, prefix: str, key: ServerKey) -> set[ServerKey]:
        """Reserve a prefix for a deleted server. If that exceeds a limit, other reservations are dropped; returns the
        claimants of their prefixes.
        """
        if self._retention <= 0 or (self._reserved_for(prefix) or key) != key:
            return set()
        self._reservations[prefix] = Reservation(
            key, self._time_in(self._retention), self._monotonic() + self._retention
        )
        self._on_change()
        return self._enforce_limits()

    def has_reservation(self, key: ServerKey) -> bool:
        """Whether a prefix is reserved for this deleted server."""
        return any(
            reservation.key == key and reservation.ends_at is not None for reservation in self._reservations.values()
        )

    def expire(self) -> set[ServerKey]:
        """Drop expired reservations, and reassign the prefixes of holders that never listed a tool. Returns the servers
        whose prefix has a new holder.
        """
        now = self._monotonic()
        expired_prefixes = [
            (prefix, reservation.key)
            for prefix, reservation in self._reservations.items()
            if reservation.ends_at is not None and reservation.ends_at <= now
        ]
        affected: set[ServerKey] = set()
        for prefix, key in expired_prefixes:
            affected |= self._drop_reservation(prefix, key)
        return affected | self._reassign_unserved(now)

    def _reassign_unserved(self, now: float) -> set[ServerKey]:
        """Give the prefix of a holder that has not listed a tool within `UNSERVED_S` to the oldest claimant that has
        listed tools.
        """
        affected: set[ServerKey] = set()
        for prefix, keys in self._by_prefix.items():
            holder = self.holder(prefix)
            if (
                holder is None
                or holder in self._served_claimants
                or now - self._claimed_at.get(holder, now) < UNSERVED_S
            ):
                continue
            candidates = [self._claims[key] for key in keys if key in self._served_claimants]
            if candidates:
                self.confirm_holder(prefix, min(candidates).key)
                affected |= keys
        return affected

    def owners(self) -> tuple[PrefixOwner, ...]:
        """The reservations for the servers document, sorted by prefix."""
        return tuple(
            PrefixOwner(
                prefix=prefix,
                namespace=reservation.key.namespace,
                name=reservation.key.name,
                until=reservation.until,
            )
            for prefix, reservation in sorted(self._reservations.items())
        )

    def restore(self, owners: Iterable[PrefixOwner]) -> None:
        """Load the reservations that the previous leader stored; call this method before the first claim.

        Each reservation lasts between `SKEW_S` and `retention` seconds from now, even if the clock of this machine or
        of the previous leader's machine is wrong.
        """
        if self._retention <= 0:
            return
        now, monotonic = self._now(), self._monotonic()
        for owner in owners:
            until = owner.until
            try:
                remaining = (datetime.fromisoformat(until).astimezone(UTC) - now).total_seconds()
            except (ValueError, OverflowError):  # empty, because the owner existed; or edited by hand
                remaining, until = self._retention, self._time_in(self._retention)
            remaining = min(max(remaining, SKEW_S), self._retention)
            self._reservations.setdefault(owner.prefix, Reservation(owner.key, until, monotonic + remaining))
        self._enforce_limits()

    def holder(self, prefix: str) -> ServerKey | None:
        """The server that holds a prefix, possibly a deleted one."""
        owner = self._reserved_for(prefix)
        if owner is not None:
            return owner
        claims = [self._claims[key] for key in self._by_prefix.get(prefix, ())]
        return min(claims).key if claims else None

    def grant(self, server: McpServer) -> tuple[ConditionVerdict | None, str | None]:
        """The verdict Conflicted of a server, and its prefix; None, and the prefix, for a server that holds its prefix.

        A server without a prefix is served at its own endpoint only; the verdict says so.
        """
        prefix = requested_prefix(server, self._style)
        holder = self.holder(prefix)
        if holder is None or holder == server.key:
            return None, prefix
        reservation = self._reservations.get(prefix)
        effect = "this server is served at its own endpoint only"
        if reservation is None or reservation.ends_at is None:
            reason = "which had it first"
            if holder in self._served_claimants and server.key not in self._served_claimants:
                reason = "which has listed tools, while this server has not yet"
            message = f"prefix {prefix} belongs to {holder}, {reason}; {effect}"
            return ConditionVerdict(True, Cause.PREFIX_TAKEN, message), None
        message = f"prefix {prefix} is reserved until {reservation.until} for {holder}, which was deleted; {effect}"
        names = {"OWNER": holder.namespace, "PREFIX": prefix}
        return ConditionVerdict(True, Cause.PREFIX_RESERVED, message, names), None

    def _time_in(self, seconds: float) -> str:
        """The time `seconds` from now, in RFC 3339."""
        return (self._now() + timedelta(seconds=seconds)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _reserved_for(self, prefix: str) -> ServerKey | None:
        """The server for which a prefix is reserved; None without a reservation."""
        reservation = self._reservations.get(prefix)
        return None if reservation is None else reservation.key

    def _update_reservation(self, prefix: str, key: ServerKey) -> set[ServerKey]:
        """Update a reservation whose owner claims the prefix. Returns all claimants of the prefix if the reservation
        changed.

        The reservation is dropped if the owner would hold the prefix without it, else its end is removed.
        """
        oldest_claimant = min(self._claims[claimant] for claimant in self._by_prefix[prefix]).key
        if oldest_claimant == key and key in self._served_claimants:
            del self._reservations[prefix]
        elif self._reservations[prefix].ends_at is not None:
            self._reservations[prefix] = Reservation(key)
        else:
            return set()
        self._on_change()
        return set(self._by_prefix[prefix])

    def _apply_releases(self, server: McpServer) -> set[ServerKey]:
        """Drop the reservations of deleted servers that this server's annotation releases; only reservations of its own
        namespace. Returns the claimants of these prefixes.
        """
        text = server.metadata.annotations.get(ANNOTATION_RELEASE_PREFIX, "")
        prefixes = frozenset(filter(None, (prefix.strip() for prefix in text.split(","))))
        if not prefixes:
            self._releases.pop(server.key, None)
            return set()
        self._releases[server.key] = prefixes
        affected: set[ServerKey] = set()
        for prefix in prefixes:
            reservation = self._reservations.get(prefix)
            if reservation is None or reservation.ends_at is None or reservation.key.namespace != server.key.namespace:
                continue
            affected |= self._drop_reservation(prefix, reservation.key)
        return affected

    def _is_released(self, namespace: str, prefix: str) -> bool:
        """Whether an annotation of a server in the namespace releases the prefix."""
        return any(prefix in prefixes for key, prefixes in self._releases.items() if key.namespace == namespace)

    def _drop_reservation(self, prefix: str, key: ServerKey) -> set[ServerKey]:
        """Drop the reservation of a prefix if `key` owns it. Returns the servers that claim the prefix."""
        if self._reserved_for(prefix) != key:
            return set()
        del self._reservations[prefix]
        self._on_change()
        return set(self._by_prefix.get(prefix, ()))

    def _drop_claim(self, key: ServerKey) -> set[ServerKey]:
        """Remove the claim of a server. Returns the other claimants of its prefix."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return set()
        del self._claimed_at[key]
        contenders = self._by_prefix[claim.prefix]
        contenders.discard(key)
        if not contenders:
            del self._by_prefix[claim.prefix]
        return set(contenders)

    def _enforce_limits(self) -> set[ServerKey]:
        """Drop reservations beyond `MAX_PER_NAMESPACE` and `MAX_RESERVATIONS`. Returns the servers that claim their
        prefixes.
        """
        reservations = {
            prefix: reservation for prefix, reservation in self._reservations.items() if reservation.ends_at is not None
        }
        counts = Counter(reservation.key.namespace for reservation in reservations.values())
        affected: set[ServerKey] = set()
        while counts and (max(counts.values()) > MAX_PER_NAMESPACE or counts.total() > MAX_RESERVATIONS):
            namespace, _ = counts.most_common(1)[0]
            first_prefix = min(
                (prefix for prefix, reservation in reservations.items() if reservation.key.namespace == namespace),
                key=lambda prefix: reservations[prefix].until,
            )
            counts[namespace] -= 1
            key = reservations.pop(first_prefix).key
            logger.info(
                "prefix %s is no longer reserved for %s: too many prefixes of deleted servers are reserved",
                first_prefix,
                key,
            )
            affected |= self._drop_reservation(first_prefix, key)
        return affected
