"""Guards of signing in to the console by an OpenID provider: see `guards`."""

from __future__ import annotations

from product_guard import GATEWAY, Guard

_TEST = "tests/component/console/test_oidc_attacks.py"
_ID_TOKENS = f"{_TEST}::test_id_tokens_that_do_not_fit_are_refused"
_CONSOLE = "fairlead_console"

SIGN_IN = (
    Guard(
        "an ID token of another sign-in",
        f"{GATEWAY}.identity.id_tokens",
        (("if not isinstance(nonce_claim, str) or not hmac.", "if False and not hmac."),),
        _ID_TOKENS,
        "200 == 400",
    ),
    Guard(
        "an ID token for another client",
        f"{GATEWAY}.identity.id_tokens",
        (("if client_id not in audiences:", "if False:"), ("if party != client_id and (", "if False and (")),
        _ID_TOKENS,
        "200 == 400",
    ),
    Guard(
        "an expired ID token",
        f"{GATEWAY}.identity.jwt_authenticator",
        (("expires_at = self._expiry(claims, signing_issuer)", "expires_at = 0"),),
        _ID_TOKENS,
        "200 == 400",
    ),
    Guard(
        "the answer of another provider to a sign-in",
        f"{_CONSOLE}.oidc_answers",
        (("if iss != issuer and (iss is not None or always_sends_iss):", "if False:"),),
        f"{_TEST}::test_redirects_that_do_not_fit_are_refused",
        "200 in (400, 502)",
    ),
    Guard(
        "a page elsewhere that signing in leads to",
        f"{_CONSOLE}.sign_in_form",
        (("return parts.path if is_own and is_plain", "return location if True or is_plain"),),
        "tests/component/console/test_oidc_sign_in.py::test_the_way_leads_to_no_other_place",
        "assert",
    ),
    Guard(
        "metadata that leads to a place without TLS",
        f"{_CONSOLE}.oidc_provider",
        (("if endpoint and not (is_plain and is_private(", "if False and not (is_plain and is_private("),),
        f"{_TEST}::test_metadata_that_leads_elsewhere_is_not_followed",
        "303",
    ),
)
