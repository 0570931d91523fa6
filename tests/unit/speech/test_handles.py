"""Handles of speech sessions are valid for one principal at one provider."""

from __future__ import annotations

import pytest

from fairlead_gateway.core.identity import ANONYMOUS, Identity
from fairlead_speech.gemini.handles import ForeignHandle, HandleSealer
from policyworld import anybody

SEALER = HandleSealer(b"key")


@pytest.mark.parametrize("identity", [ANONYMOUS, anybody("ada")], ids=["anonymous", "known"])
def test_a_handle_belongs_to_the_provider_that_made_it(identity: Identity) -> None:
    """Providers may number their handles, so two providers may issue the same handle."""
    shown = SEALER.seal("handle-1", "google", identity)
    assert SEALER.unseal(shown, ["other", "google"], identity) == ("handle-1", "google")
    with pytest.raises(ForeignHandle):
        SEALER.unseal(shown, ["other"], identity)


@pytest.mark.parametrize("identity", [ANONYMOUS, anybody("ada")], ids=["anonymous", "known"])
def test_a_handle_that_nobody_signed_is_refused(identity: Identity) -> None:
    for made_up in ("handle-1", f"fairlead-of.{'0' * 32}.handle-1"):
        with pytest.raises(ForeignHandle):
            SEALER.unseal(made_up, ["google"], identity)


def test_no_handle_stays_none() -> None:
    assert SEALER.seal("", "google", ANONYMOUS) == ""
