"""Guards of the authorization server, with the attacks of other clients, pages and providers. See `guards`."""

from __future__ import annotations

from product_guard import Guard

_TEST = "tests/component/authorization/test_authorization_attacks.py"
_ODD = "tests/component/authorization/test_odd_clients_and_providers.py"
_ANYBODY = "tests/component/authorization/test_clients_of_anybody.py"
_PROTOCOL = "fairlead_authorization.protocol"

AUTHORIZATION = (
    Guard(
        "the answer of another provider to a client's sign-in",
        "fairlead_mcp.oauth.authorization_request",
        (("    if answer_issuer is not None and answer_issuer != issuer:\n", "    if False:\n"),),
        f"{_TEST}::test_answer_of_another_provider_is_not_taken",
        "200 == 400",
    ),
    Guard(
        "the answer of one provider at the address for another",
        f"{_PROTOCOL}.callback",
        (("state.provider != name or", "False or"),),
        f"{_TEST}::test_answer_of_one_provider_is_not_taken_at_the_address_for_another",
        "400 == 403",
    ),
    Guard(
        "an ID token of another sign-in, for a client's",
        f"{_PROTOCOL}.provider",
        (("        if fault is not None:\n", "        if False:\n"),),
        f"{_TEST}::test_id_token_of_another_sign_in_is_not_taken",
        "200 == 400",
    ),
    Guard(
        "somebody else's code in a client's own request",
        f"{_PROTOCOL}.grants",
        (("self.register_grant(_CodeGrant, [S256Challenge(required=True)])", "self.register_grant(_CodeGrant)"),),
        f"{_TEST}::test_code_is_of_no_use_in_a_request_with_another_verifier",
        "(200, None)",
    ),
    Guard(
        "a request whose PKCE an attacker turned down to plain",
        f"{_PROTOCOL}.grants",
        (
            (
                '        if not data.get("code_challenge") or data.get("code_challenge_method") != "S256":\n',
                "        if False:\n",
            ),
        ),
        f"{_TEST}::test_request_without_pkce_by_s256_is_refused",
        "None == 'invalid_request'",
    ),
    Guard(
        "a code sent to an attacker's address",
        f"{_PROTOCOL}.authorize",
        (("        if not matches(redirect_uri, client.redirect_uris):\n", "        if False:\n"),),
        f"{_TEST}::test_answer_goes_to_no_other_redirect_uri",
        "303, ",
    ),
    Guard(
        "access for one client by the consent to another",
        f"{_PROTOCOL}.callback",
        (("        if waiting.has_consent:\n", "        if True:\n"),),
        f"{_TEST}::test_consent_to_one_client_is_none_to_another",
        "303 == 200",
    ),
    Guard(
        "consent in the name of a user, by a page elsewhere",
        f"{_PROTOCOL}.consent",
        (
            (
                "        if not (_is_own_form(request) and hmac.compare_digest(token, state.token.encode())):\n",
                "        if False:\n",
            ),
        ),
        f"{_TEST}::test_consent_is_not_given_by_another_page_or_browser",
        "200 == 403",
    ),
    Guard(
        "a consent page in the frame of another page",
        "fairlead_web.sign_in_html",
        (("\"base-uri 'none'; frame-ancestors 'none'\"", "\"base-uri 'none'\""),),
        f"{_TEST}::test_pages_cannot_be_framed",
        "frame-ancestors",
    ),
    Guard(
        "a parameter that is there twice, read in two ways",
        f"{_PROTOCOL}.authorize",
        (('        if parameters.repeated - {"resource"}:\n', "        if False:\n"),),
        f"{_TEST}::test_repeated_parameter_is_refused",
        "== 'invalid_request'",
    ),
    Guard(
        "a parameter of a token request that is there twice",
        f"{_PROTOCOL}.client_requests",
        (("        if parameters.repeated:\n", "        if False:\n"),),
        f"{_TEST}::test_repeated_parameter_of_a_token_request_is_refused",
        "invalid_grant",
    ),
    Guard(
        "a token for a resource that is not the gateway's",
        f"{_PROTOCOL}.resources",
        (
            (
                "    if not is_below or has_dot_segments or PLAIN_PATH.fullmatch(path) is None:\n",
                "    if not is_below:\n",
            ),
        ),
        f"{_TEST}::test_resource_is_the_gateway_or_below_it",
        "None == 'invalid_target'",
    ),
    Guard(
        "a token for more than the person signed in for",
        f"{_PROTOCOL}.token",
        (
            (
                "        if resource is not None and canonical_resource(",
                '        if False and canonical_resource(resource or "", ',
            ),
        ),
        f"{_TEST}::test_token_request_does_not_widen_the_resource",
        "(200, None)",
    ),
    Guard(
        "scopes that this gateway does not give",
        f"{_PROTOCOL}.grants",
        (
            (
                "        allowed_scopes = [scope for scope in self._scopes if scope in requested]\n",
                "        allowed_scopes = list(requested)\n",
            ),
        ),
        f"{_TEST}::test_scopes_are_those_that_the_person_allowed",
        "'mcp:tools root' == 'mcp:tools'",
    ),
    Guard(
        "a code for one redirect URI, redeemed for another",
        f"{_PROTOCOL}.grants",
        (("        return self.session.access.redirect_uri\n", '        return ""\n'),),
        f"{_TEST}::test_code_is_of_no_use_to_another_client_or_at_another_redirect_uri",
        "(200, None)",
    ),
    Guard(
        "a client with a secret, played without it",
        f"{_PROTOCOL}.grants",
        (("        return method == own_method or (", "        return True or ("),),
        f"{_TEST}::test_client_with_a_secret_is_not_public",
        "(200, None)",
    ),
    Guard(
        "an assertion that a client made for another server",
        f"{_PROTOCOL}.client_assertions",
        (
            (
                "    is_for_us = len(audience) == 1 and audience[0] in audiences\n",
                "    is_for_us = True\n",
            ),
        ),
        f"{_TEST}::test_assertion_for_another_server_or_time_does_not_authenticate",
        "(200, None)",
    ),
    Guard(
        "an assertion of a client that was seen and sent again",
        "fairlead_authorization.sessions.temporary_records",
        (('write(key, record, "")', "write(key, record)"),),
        f"{_TEST}::test_assertion_is_good_once_and_by_the_clients_own_key",
        "200 == 401",
    ),
    Guard(
        "an assertion of a client that was seen and sent to another replica",
        "fairlead_authorization.sessions.temporary_records",
        (('write(key, record, "")', "write(key, record)"),),
        "tests/unit/authorization/test_used_assertions.py"
        "::test_an_assertion_of_a_client_is_good_once_over_all_replicas",
        "assert not True",
    ),
    Guard(
        "clients that nobody named, whose assertions fill the store",
        "fairlead_authorization.sessions.spent_assertions",
        (("        if records.count >= limit:\n", "        if False:\n"),),
        "tests/unit/authorization/test_used_assertions.py"
        "::test_clients_that_nobody_named_share_little_room_and_leave_others_theirs",
        "DID NOT RAISE",
    ),
    Guard(
        "a browser filled with cookies of sign-ins",
        f"{_PROTOCOL}.browser_state",
        (("for name in cookie_names[: max(0, len(cookie_names) - MAX_OPEN)]]", "for name in cookie_names[:0]]"),),
        f"{_TEST}::test_browser_keeps_a_bounded_number_of_sign_ins",
        "assert 7 <= ",
    ),
    Guard(
        "claims by the access token of another provider",
        f"{_PROTOCOL}.provider",
        (('and identity.claims["iss"] == issuer:', "and True:"),),
        f"{_ODD}::test_claims_are_not_those_of_another_providers_access_token",
        "#bob/",
    ),
    Guard(
        "a name of an agent that a client had before, by refreshes",
        f"{_PROTOCOL}.token",
        (("agent=client.agent", "agent=rotated_token.session.agent"),),
        f"{_ODD}::test_client_that_has_lost_a_name_of_an_agent_does_not_keep_it_by_refreshes",
        "'tool' == 'desk'",
    ),
    Guard(
        "documents of anybody, so that those of named hosts are not fetched",
        "fairlead_authorization.clients.client_ids",
        (("return address.authority if address.authority in hosts else ANY_HOST", "return ANY_HOST"),),
        "tests/unit/authorization/test_document_clients.py"
        "::test_slow_hosts_of_anybody_do_not_keep_out_clients_of_named_hosts",
        "too many documents",
    ),
    Guard(
        "a link to the gateway that leads on to an attacker's page, before any sign-in",
        f"{_PROTOCOL}.authorize",
        (("    if client.is_named:\n", "    if True:\n"),),
        f"{_ANYBODY}::test_no_link_leads_a_browser_on_to_a_client_of_anybody",
        "(303, ",
    ),
    Guard(
        "a window moved so that a second click consents",
        f"{_PROTOCOL}.consent",
        (('if client.is_named or client.kind != "document" else _CONFIRMATION', "if True else _CONFIRMATION"),),
        f"{_ANYBODY}::test_a_second_click_alone_does_not_consent_to_a_client_of_any_host",
        "is True",
    ),
    Guard(
        "an administrator's rights for a client that registered itself",
        "fairlead_rest.context",
        (("        if identity.is_created_key or identity.of_anybody:\n", "        if identity.is_created_key:\n"),),
        f"{_ANYBODY}::test_client_that_registered_itself_does_not_administer_for_an_administrator",
        "200 == 403",
    ),
    Guard(
        "an administrator's rights for a client of any host",
        f"{_PROTOCOL}.token",
        (("scopes, of_anybody=not client.is_named)", "scopes)"),),
        f"{_ANYBODY}::test_client_of_any_host_does_not_administer_for_an_administrator",
        "200 == 403",
    ),
    Guard(
        "an access token whose client has ended it",
        f"{_PROTOCOL}.revocation",
        (("            if self._own_tokens.recognizes(token):\n", "            if False:\n"),),
        f"{_ANYBODY}::test_access_token_ends_its_sign_in_at_the_revocation_endpoint",
        "assert False",
    ),
    Guard(
        "a sign-in of another client, ended by its access token",
        f"{_PROTOCOL}.revocation",
        (("if owner is not None and owner.client_id == client_id:", "if owner is not None:"),),
        f"{_ANYBODY}::test_access_token_of_another_client_ends_nothing",
        "assert not True",
    ),
    Guard(
        "claims about the gateway's own client, as those of each person",
        f"{_PROTOCOL}.provider",
        (("PROTOCOL_CLAIMS.union(self.client.issuer.agent_claims)", "PROTOCOL_CLAIMS"),),
        f"{_ODD}::test_claims_about_the_gateways_client_are_not_those_of_the_person",
        "app_name",
    ),
)
