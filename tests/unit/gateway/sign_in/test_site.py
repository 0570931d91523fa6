"""URLs of the sign-in pages, and cookies of the browsers that open them."""

from __future__ import annotations

import pytest

from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_api.meta import ServerKey
from fairlead_gateway.sign_in.pending import PendingSignIns
from fairlead_gateway.sign_in.sealed_sign_ins import SignInSealer
from fairlead_gateway.sign_in.site import CALLBACK, SignInSite, path_of, server_in, server_path
from fairlead_web.sign_in_pages import browser_cookie

LINEAR = ServerKey("team", "linear")
LAPTOP = SignInSite(lambda: "http://127.0.0.1:8080", is_local=True)
CLUSTER = SignInSite(lambda: "https://tools.example.com", is_local=False)
BY_HAND = OAuthSettings(grant=USER_CONSENT, client_id="f00d", callback_port=8765)
ANY = OAuthSettings(grant=USER_CONSENT)


def test_each_server_has_a_redirect_uri_of_its_own() -> None:
    assert LAPTOP.redirect_uri(LINEAR, ANY) == "http://127.0.0.1:8080/sign-in/callback/team/linear"
    assert CLUSTER.redirect_uri(LINEAR, ANY) == "https://tools.example.com/sign-in/callback/team/linear"
    assert CLUSTER.callback_path(LINEAR, ANY) == "/sign-in/callback/team/linear"


def test_a_registered_port_is_for_laptops() -> None:
    assert LAPTOP.redirect_uri(LINEAR, BY_HAND) == "http://localhost:8765/callback"
    assert LAPTOP.callback_path(LINEAR, BY_HAND) == CALLBACK
    assert CLUSTER.redirect_uri(LINEAR, BY_HAND) == CLUSTER.redirect_uri(LINEAR, ANY)
    assert LAPTOP.listens_at(8080)
    assert not LAPTOP.listens_at(8765)


def test_authorization_servers_fetch_the_clients_document_over_https_only() -> None:
    assert CLUSTER.client_document(LINEAR) == "https://tools.example.com/sign-in/client/team/linear"
    assert LAPTOP.client_document(LINEAR) == ""
    assert SignInSite(lambda: "https://127.0.0.1:8080", is_local=True).client_document(LINEAR) == ""


@pytest.mark.parametrize("namespace", ["callback", "client", "team"])
def test_no_namespace_is_taken_for_another_page(namespace: str) -> None:
    server = ServerKey(namespace, "linear")
    assert server_in(path_of(server, "x").partition("?")[0], CALLBACK) is None
    assert server_in(server_path(CALLBACK, server), CALLBACK) == server


def test_cookies_over_https_cannot_be_set_by_other_hosts() -> None:
    pending = PendingSignIns(SignInSealer(b"key"), lambda: 0.0).open(b"alice", "alice", LINEAR, None)
    here, elsewhere = (browser_cookie(pending, "value", site) for site in (LAPTOP, CLUSTER))
    assert here == f"{pending.cookie}=value; Path=/sign-in/; Max-Age=600; HttpOnly; SameSite=Lax"
    assert elsewhere == f"__Host-{pending.cookie}=value; Path=/; Secure; Max-Age=600; HttpOnly; SameSite=Lax"
    assert "Max-Age=0" in browser_cookie(pending, "", CLUSTER)
