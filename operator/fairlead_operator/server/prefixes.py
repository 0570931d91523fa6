"""Assigns prefixes to servers. Pure but for the tables that it keeps.

A prefix is the manifest's own, else a function of namespace, name and one setting of the installation, never of other
servers. The first server to claim a prefix holds it, which at the start is the oldest: a newcomer breaks nothing that
works, nor does an older server that changes its prefix. One that has never listed a tool holds its prefix against a
server that has for `UNSERVED_S` only: nobody knows names of it. Agents send arguments to a name, so that of a deleted
server does not pass to the next one: it is reserved for the same namespace and name, and theirs at once when they are
back.
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
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.ports import ConditionVerdict

logger = logging.getLogger(__name__)

PrefixStyle = Literal["name", "namespace-name"]

EACH: Final = 32
"""Prefixes of deleted servers that are reserved for one namespace; the one that ends first makes room."""
MOST: Final = 1024
"""Those of all namespaces; the namespace with most of them makes room."""
SKEW_S: Final = 300.0
"""Seconds that a reservation stands at least after a start: its end was written by the clock of another machine."""


UNSERVED_S: Final = 600.0
"""Seconds after which a server that has never listed a tool gives its prefix up to one that has: as long as a
Deployment may take to make progress, so that a slow start loses nothing."""


class Claim(NamedTuple):
    """One server's claim; the smallest of those on a prefix wins: older first, then by namespace and name."""

    created: datetime
    key: ServerKey
    prefix: str


class Reservation(NamedTuple):
    """Owner of a prefix whatever the ages of the servers that claim it."""

    key: ServerKey
    until: str = ""
    """RFC 3339, for people and for the next leader; empty while the owner claims the prefix."""
    ends: float | None = None
    """End on the monotonic clock, which no correction of the time moves."""


def wanted_prefix(server: McpServer, style: PrefixStyle) -> str:
    """The prefix that a server asks for, by its manifest or by default."""
    return default_prefix(server.key, style) if server.spec.prefix is None else server.spec.prefix


def default_prefix(key: ServerKey, style: PrefixStyle) -> str:
    """The prefix of a server whose manifest names none."""
    return key.name if style == "name" else f"{key.namespace}-{key.name}"


class Prefixes:
    """The claims of all servers, and the reservations of those that are gone.

    `retention`: seconds for which the prefix of a deleted server is reserved; 0 passes it on at once. `changed` is
    called when `owners` has changed.
    """

    def __init__(
        self,
        style: PrefixStyle,
        retention: float = 0.0,
        *,
        changed: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._style: PrefixStyle = style
        self._retention = retention
        self._changed = changed
        self._now = now
        self._monotonic = monotonic
        self._claims: dict[ServerKey, Claim] = {}
        self._by_prefix: dict[str, set[ServerKey]] = {}
        self._since: dict[ServerKey, float] = {}
        """When each claim was entered, on the monotonic clock."""
        self._served: set[ServerKey] = set()
        """Claimants that have had a catalog: agents may know their names."""
        self._reservations: dict[str, Reservation] = {}
        self._settled = False
        self._releases: dict[ServerKey, frozenset[str]] = {}
        """Prefixes that a server's annotation gives up in the name of its namespace."""

    def claim(self, server: McpServer) -> set[ServerKey]:
        """Enter or renew a server's claim. Returns the other servers for which the holder has changed."""
        key = server.key
        if server.status.tools is not None:
            self._served.add(key)
        touched = self._give_up(server)
        created = server.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
        claim = Claim(created, key, wanted_prefix(server, self._style))
        if self._claims.get(key) != claim:
            touched |= self._enter(claim)
        if self._owner(claim.prefix) == key:
            touched |= self._return(claim.prefix, key)
        return touched - {key}

    def _enter(self, claim: Claim) -> set[ServerKey]:
        key = claim.key
        touched = self._drop(key)
        for prefix in [each for each, owner in self._reservations.items() if owner.key == key and each != claim.prefix]:
            touched |= self._forget(prefix, key)
        holder = self.holder(claim.prefix)
        contenders = self._by_prefix.setdefault(claim.prefix, set())
        contenders.add(key)
        self._claims[key] = claim
        self._since[key] = self._monotonic()
        if self.holder(claim.prefix) == key:
            if self._settled and holder not in (None, key):
                self.confirm(claim.prefix, holder)
            else:
                touched |= contenders
        return touched

    def contenders(self) -> dict[str, frozenset[ServerKey]]:
        """Claimants of each prefix that several servers claim and that is reserved for none."""
        return {
            prefix: frozenset(keys)
            for prefix, keys in self._by_prefix.items()
            if len(keys) > 1 and prefix not in self._reservations
        }

    def confirm(self, prefix: str, holder: ServerKey) -> None:
        """Let a claimant keep the prefix although another one is older."""
        self._reservations[prefix] = Reservation(holder)
        self._return(prefix, holder)
        self._changed()

    def settle(self) -> None:
        """All claims that existed at the start are entered: from now on nobody takes a prefix by age."""
        self._settled = True

    def release(self, key: ServerKey, *, served: bool = False) -> set[ServerKey]:
        """Drop the claim of a server that is gone. Returns the servers that waited for it.

        Its prefix is reserved for it if it held the prefix and has ever been `served`.
        """
        claim = self._claims.get(key)
        if claim is None:
            return set()
        served = served or key in self._served or self._owner(claim.prefix) == key
        held = self.holder(claim.prefix) == key and served
        given_up = self._gives_up(key.namespace, claim.prefix)
        waiting = self._drop(key)
        self._served.discard(key)
        self._releases.pop(key, None)
        if held and not given_up:
            waiting |= self.reserve(claim.prefix, key)
        else:
            self._forget(claim.prefix, key)
        return waiting - {key}

    def reserve(self, prefix: str, key: ServerKey) -> set[ServerKey]:
        """Reserve a prefix for a server that is gone. Returns servers whose prefix made room, and is free."""
        if self._retention <= 0 or (self._owner(prefix) or key) != key:
            return set()
        self._reservations[prefix] = Reservation(key, self._until(self._retention), self._monotonic() + self._retention)
        self._changed()
        return self._make_room()

    def has_reservation(self, key: ServerKey) -> bool:
        """Whether a prefix is reserved for this server, which is gone."""
        return any(owner.key == key and owner.ends is not None for owner in self._reservations.values())

    def expire(self) -> set[ServerKey]:
        """Drop reservations whose time is over, and pass on prefixes whose holders have never listed a tool. Returns
        the servers for which the holder has changed.
        """
        now = self._monotonic()
        over = [prefix for prefix, owner in self._reservations.items() if owner.ends is not None and owner.ends <= now]
        touched: set[ServerKey] = set()
        for prefix in over:
            touched |= self._forget(prefix, self._reservations[prefix].key)
        return touched | self._pass_on(now)

    def _pass_on(self, now: float) -> set[ServerKey]:
        """Give prefixes that servers hold which have never listed a tool to the first of those that have."""
        touched: set[ServerKey] = set()
        for prefix, keys in self._by_prefix.items():
            holder = self.holder(prefix)
            if holder is None or holder in self._served or now - self._since.get(holder, now) < UNSERVED_S:
                continue
            heirs = [self._claims[key] for key in keys if key in self._served]
            if heirs:
                self.confirm(prefix, min(heirs).key)
                touched |= keys
        return touched

    def owners(self) -> tuple[PrefixOwner, ...]:
        """The reservations as the servers document has them, sorted by prefix."""
        return tuple(
            PrefixOwner(prefix=prefix, namespace=owner.key.namespace, name=owner.key.name, until=owner.until)
            for prefix, owner in sorted(self._reservations.items())
        )

    def restore(self, owners: Iterable[PrefixOwner]) -> None:
        """Take over what another operator stored, before the first claim.

        A clock that is wrong, there or here, makes no reservation shorter than `SKEW_S` or longer than `retention`.
        """
        if self._retention <= 0:
            return
        now, monotonic = self._now(), self._monotonic()
        for owner in owners:
            until = owner.until
            try:
                left = (datetime.fromisoformat(until).astimezone(UTC) - now).total_seconds()
            except (ValueError, OverflowError):  # one that existed, and edits by hand
                left, until = self._retention, self._until(self._retention)
            left = min(max(left, SKEW_S), self._retention)
            self._reservations.setdefault(owner.prefix, Reservation(owner.key, until, monotonic + left))
        self._make_room()

    def holder(self, prefix: str) -> ServerKey | None:
        """The server that holds a prefix, which may be one that was deleted."""
        owner = self._owner(prefix)
        if owner is not None:
            return owner
        claims = [self._claims[key] for key in self._by_prefix.get(prefix, ())]
        return min(claims).key if claims else None

    def grant(self, server: McpServer) -> tuple[ConditionVerdict | None, str | None]:
        """The condition Conflicted of a server, and its prefix. Without one of its own it is served at its own
        endpoint, and told so.
        """
        prefix = wanted_prefix(server, self._style)
        holder = self.holder(prefix)
        if holder is None or holder == server.key:
            return None, prefix
        reservation = self._reservations.get(prefix)
        served = "this server is served at its own endpoint only"
        if reservation is None or reservation.ends is None:
            first = "which had it first"
            if holder in self._served and server.key not in self._served:
                first = "which has listed tools, as this one has not yet"
            message = f"prefix {prefix} is held by {holder}, {first}; {served}"
            return ConditionVerdict(True, Cause.PREFIX_TAKEN, message), None
        message = f"prefix {prefix} is reserved until {reservation.until} for {holder}, which was deleted; {served}"
        names = {"OWNER": holder.namespace, "PREFIX": prefix}
        return ConditionVerdict(True, Cause.PREFIX_RESERVED, message, names), None

    def _until(self, seconds: float) -> str:
        """The time in so many seconds, RFC 3339."""
        return (self._now() + timedelta(seconds=seconds)).astimezone(UTC).isoformat(timespec="seconds")

    def _owner(self, prefix: str) -> ServerKey | None:
        reservation = self._reservations.get(prefix)
        return None if reservation is None else reservation.key

    def _return(self, prefix: str, key: ServerKey) -> set[ServerKey]:
        """The owner claims its prefix. Its reservation goes on without an end until it would hold the prefix, and have
        it reserved, without one too. Returns those who claim the prefix, if they have to be told.
        """
        oldest = min(self._claims[each] for each in self._by_prefix[prefix]).key
        if oldest == key and key in self._served:
            del self._reservations[prefix]
        elif self._reservations[prefix].ends is not None:
            self._reservations[prefix] = Reservation(key)
        else:
            return set()
        self._changed()
        return set(self._by_prefix[prefix])

    def _give_up(self, server: McpServer) -> set[ServerKey]:
        """Drop the reservations that the annotation of a server gives up for deleted ones of its namespace."""
        text = server.metadata.annotations.get(ANNOTATION_RELEASE_PREFIX, "")
        prefixes = frozenset(filter(None, (each.strip() for each in text.split(","))))
        if not prefixes:
            self._releases.pop(server.key, None)
            return set()
        self._releases[server.key] = prefixes
        touched: set[ServerKey] = set()
        for prefix in prefixes:
            reservation = self._reservations.get(prefix)
            if reservation is None or reservation.ends is None or reservation.key.namespace != server.key.namespace:
                continue
            touched |= self._forget(prefix, reservation.key)
        return touched

    def _gives_up(self, namespace: str, prefix: str) -> bool:
        return any(prefix in prefixes for key, prefixes in self._releases.items() if key.namespace == namespace)

    def _forget(self, prefix: str, key: ServerKey) -> set[ServerKey]:
        """Drop the reservation of a prefix, if it is `key`'s. Returns the servers that want the prefix."""
        if self._owner(prefix) != key:
            return set()
        del self._reservations[prefix]
        self._changed()
        return set(self._by_prefix.get(prefix, ()))

    def _drop(self, key: ServerKey) -> set[ServerKey]:
        claim = self._claims.pop(key, None)
        if claim is None:
            return set()
        del self._since[key]
        contenders = self._by_prefix[claim.prefix]
        contenders.discard(key)
        if not contenders:
            del self._by_prefix[claim.prefix]
        return set(contenders)

    def _make_room(self) -> set[ServerKey]:
        """Drop reservations beyond the bounds. Returns the servers that want their prefixes."""
        gone = {prefix: owner for prefix, owner in self._reservations.items() if owner.ends is not None}
        counts = Counter(owner.key.namespace for owner in gone.values())
        touched: set[ServerKey] = set()
        while counts and (max(counts.values()) > EACH or counts.total() > MOST):
            namespace, _ = counts.most_common(1)[0]
            first = min(
                (prefix for prefix, owner in gone.items() if owner.key.namespace == namespace),
                key=lambda prefix: gone[prefix].until,
            )
            counts[namespace] -= 1
            owner = gone.pop(first)
            logger.info("prefix %s is no longer reserved for %s: others of its namespace are", first, owner.key)
            touched |= self._forget(first, owner.key)
        return touched
