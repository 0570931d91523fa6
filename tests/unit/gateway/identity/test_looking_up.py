"""Credentials that another service has to verify: the wait is bounded, and without an answer the caller is refused."""

from __future__ import annotations

import asyncio

import pytest

from fairlead_gateway.identity.authenticator import Verdict
from fairlead_gateway.identity.refusal import BUSY, CredentialRefusal
from fairlead_gateway.identity.request_authentication import MAX_PENDING, Identities
from fixed_authenticator import Names


class Silent(Names):
    """Authenticator that never answers."""

    async def look_up(self, token: str) -> Verdict:
        await asyncio.Event().wait()
        raise AssertionError


class Broken(Names):
    """Authenticator that raises an unexpected exception."""

    async def look_up(self, token: str) -> Verdict:
        raise LookupError(token)


async def test_an_authenticator_that_does_not_answer_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    for authenticator in (Silent(), Broken()):
        verdict = await Identities([authenticator], seconds=0.05).identify(b"Bearer s3cret")
        assert isinstance(verdict, CredentialRefusal)
        assert (verdict.status, verdict.retry_after) == (503, 5)
    assert "LookupError" in caplog.text
    assert "s3cret" not in caplog.text


async def test_credentials_beyond_the_number_of_lookups_are_refused_at_once() -> None:
    identities = Identities([Silent()], seconds=30)
    waiting = [asyncio.ensure_future(identities.identify(b"Bearer %d" % number)) for number in range(MAX_PENDING)]
    await asyncio.sleep(0)
    assert await identities.identify(b"Bearer another") == BUSY
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await identities.aclose()
