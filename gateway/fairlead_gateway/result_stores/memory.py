"""Stores tool results in the memory of this process, for single replicas without Redis."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from fairlead_gateway.result_stores.store import MAX_ENTRIES, Bounds, ContextStore, size_of, too_large


class _AccountEntries:
    """Entries of one account, oldest first, with the expiry of each session."""

    def __init__(self) -> None:
        self.entries: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self.expiry_times: dict[str, float] = {}
        self.size = 0

    def add(self, session: str, ident: str, entry: bytes, expires_at: float) -> None:
        self.entries[session, ident] = entry
        self.expiry_times[session] = expires_at
        self.size += size_of(entry)

    def drop_oldest(self) -> None:
        (session, _), entry = self.entries.popitem(last=False)
        self.size -= size_of(entry)
        if not any(other == session for other, _ in self.entries):
            self.expiry_times.pop(session, None)

    def drop(self, session: str) -> int:
        removed = [key for key in self.entries if key[0] == session]
        for key in removed:
            self.size -= size_of(self.entries.pop(key))
        self.expiry_times.pop(session, None)
        return len(removed)

    def expire(self, now: float) -> None:
        for session in [session for session, expires_at in self.expiry_times.items() if expires_at <= now]:
            self.drop(session)


class MemoryStore(ContextStore):
    """Store of results in memory. `clock` is in seconds."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float] = time.monotonic) -> None:
        self._bounds = bounds
        self._clock = clock
        self._accounts: OrderedDict[str, _AccountEntries] = OrderedDict()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return self._size

    @property
    def accounts(self) -> int:
        """Number of accounts with entries."""
        return len(self._accounts)

    async def append(self, account: str, session: str, ident: str, entry: bytes) -> None:
        error = too_large(entry, self._bounds)
        if error is not None:
            raise error
        now = self._clock()
        self._expire(now)
        entries = self._accounts.setdefault(account, _AccountEntries())
        self._accounts.move_to_end(account)
        size_before = entries.size
        entries.expire(now)
        entries.add(session, ident, entry, now + self._bounds.seconds)
        while entries.size > self._bounds.each_bytes or len(entries.entries) > MAX_ENTRIES:
            entries.drop_oldest()
        self._size += entries.size - size_before
        while self._size > self._bounds.total_bytes:
            self._size -= self._accounts.popitem(last=False)[1].size

    async def entries(self, account: str, session: str) -> list[bytes]:
        entries = self._unexpired(account)
        return [] if entries is None else [entry for key, entry in entries.entries.items() if key[0] == session]

    async def entry(self, account: str, session: str, ident: str) -> bytes | None:
        entries = self._unexpired(account)
        return None if entries is None else entries.entries.get((session, ident))

    async def delete(self, account: str, session: str) -> int:
        entries = self._unexpired(account)
        if entries is None:
            return 0
        size_before = entries.size
        removed = entries.drop(session)
        self._size += entries.size - size_before
        if not entries.entries:  # empty accounts have no bytes, so the limits would never remove them
            del self._accounts[account]
        return removed

    async def aclose(self) -> None:
        self._accounts.clear()
        self._size = 0

    def _unexpired(self, account: str) -> _AccountEntries | None:
        entries = self._accounts.get(account)
        if entries is not None:
            size_before = entries.size
            entries.expire(self._clock())
            self._size += entries.size - size_before
        return entries

    def _expire(self, now: float) -> None:
        """Drop accounts whose sessions have all expired. Accounts are ordered by the time of their last new entry."""
        while self._accounts:
            account, entries = next(iter(self._accounts.items()))
            if any(expires_at > now for expires_at in entries.expiry_times.values()):
                return
            self._size -= entries.size
            del self._accounts[account]
