"""Guards on sign-ins at the authorization servers of servers: whose code, token and client it is. See `guards`."""

from __future__ import annotations

from product_guard import Guard

_OAUTH = "fairlead_mcp.oauth"
_ATTACKS = "tests/component/mcp/oauth/test_consent_attacks.py"
_GRANTS = "tests/component/mcp/oauth/test_consented_grants.py"
_ENDED = "tests/component/mcp/oauth/test_tokens_of_ended_consents.py"

ISSUERS = (
    Guard(
        "a code of one authorization server, at the token endpoint of another that mixes both up",
        f"{_OAUTH}.authorization_request",
        (("    if answer_issuer is not None and answer_issuer != issuer:\n", "    if False:\n"),),
        f"{_ATTACKS}::test_code_of_an_honest_issuer_never_reaches_the_token_endpoint_of_an_evil_one",
        "evil.issuer.redemptions",
    ),
    Guard(
        "a code without the name of an authorization server that always gives it",
        f"{_OAUTH}.authorization_request",
        (("    if answer_issuer is None and sends_issuer:\n", "    if False:\n"),),
        f"{_ATTACKS}::test_code_of_an_issuer_that_always_names_itself_is_not_used_without_its_name",
        "DID NOT RAISE",
    ),
    Guard(
        "the code of an attacker's own account, in the browser of another person",
        f"{_OAUTH}.authorization_request",
        (("    if not hmac.compare_digest(", "    if False and not hmac.compare_digest("),),
        f"{_ATTACKS}::test_code_that_somebody_else_got_is_not_redeemed_for_the_person",
        "world.issuer.redemptions",
    ),
    Guard(
        "a sign-in without PKCE, at an authorization server that claims to have none",
        f"{_OAUTH}.authorization_request",
        (("    if not metadata.has_s256:\n", "    if False:\n"),),
        f"{_ATTACKS}::test_issuer_without_s256_gets_neither_a_registration_nor_a_person",
        "DID NOT RAISE",
    ),
    Guard(
        "the gateway's registration at one authorization server, at another that a server names",
        f"{_OAUTH}.client_registrations",
        (('f"{_PREFIX}{issuer} {redirect_uri}"', "_PREFIX"),),
        f"{_ATTACKS}::test_registration_at_one_issuer_is_not_used_at_another",
        "the honest client",
    ),
    Guard(
        "a person's grant, at a server that names another authorization server by now",
        f"{_OAUTH}.metadata",
        (('    if issuers and issuer.rstrip("/") not in', '    if False and issuer.rstrip("/") not in'),),
        f"{_GRANTS}::test_token_is_not_renewed_at_an_issuer_that_the_server_does_not_name_any_more",
        "DID NOT RAISE",
    ),
    Guard(
        "a token of another person, by that person's grant",
        f"{_OAUTH}.consented_grants",
        (("GrantKey(request.subject.person, ", 'GrantKey(b"alice", '),),
        f"{_ATTACKS}::test_person_never_gets_a_token_by_the_grant_of_another",
        "DID NOT RAISE",
    ),
    Guard(
        "a token of a consent that was ended while it was renewed",
        f"{_OAUTH}.consented_grants",
        (
            (
                "            if await self._write(key, new_grant, claimed_grant.version) is not None:\n",
                "            if [await self._write(key, new_grant, claimed_grant.version)]:\n",
            ),
        ),
        f"{_ENDED}::test_token_of_a_consent_that_is_ended_while_it_is_renewed_reaches_nobody",
        "DID NOT RAISE",
    ),
    Guard(
        "a token that the gateway takes, by the consent for a server that names the gateway as its resource",
        f"{_OAUTH}.issuer_client",
        (("        if self._settings.grant != CLIENT_CREDENTIALS:\n", "        if False:\n"),),
        f"{_ATTACKS}::test_server_gets_no_token_that_the_gateway_takes",
        "DID NOT RAISE",
    ),
)
