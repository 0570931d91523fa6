"""Guards on access tokens per call: where secrets go, whose a token is, and how long. See `guards`."""

from __future__ import annotations

from product_guard import AT, Guard

_OAUTH = "fairlead_mcp.oauth"
_ATTACKS = "tests/component/mcp/oauth/test_token_attacks.py"
_SOURCES = "tests/component/mcp/oauth/test_token_source.py"

GRANTS = (
    Guard(
        "a client's secret, to the token endpoint of an issuer that metadata names",
        f"{_OAUTH}.metadata",
        (("    if not is_same:\n", "    if False:\n"),),
        f"{_ATTACKS}::test_metadata_of_another_issuer_gets_neither_secret_nor_token_request",
        "DID NOT RAISE",
    ),
    Guard(
        "a caller's token, to an authorization server of a tenant's own",
        "fairlead_gateway.core.token_destinations",
        (("        if self._is_allowed:\n", "        if True:\n"),),
        f"{AT}/test_destinations_of_tokens.py::test_an_authorization_server_of_a_tenants_own_gets_no_token",
        "evil.received",
    ),
    Guard(
        "a token for the gateway, by an exchange that asks for its audience",
        f"{_OAUTH}.exchanged_token",
        (("    if any(is_own_audience(", "    if False and any(is_own_audience("),),
        f"{AT}/test_destinations_of_tokens.py::test_no_server_gets_a_token_that_the_gateway_takes",
        "assert",
    ),
    Guard(
        "the caller's own token, from an authorization server that gives it back",
        f"{_OAUTH}.exchanged_token",
        (("    if token == subject_token:\n", "    if False:\n"),),
        f"{AT}/test_destinations_of_tokens.py::test_no_server_gets_the_token_of_its_caller",
        "assert",
    ),
    Guard(
        "an access token of the identity provider, on its way to a foreign authorization server",
        f"{_OAUTH}.id_jag",
        (("    if header.typ.lower() not in TYPES:\n", "    if False:\n"),),
        "tests/unit/mcp/oauth/test_id_jag.py::test_an_access_token_in_place_of_an_assertion_is_sent_nowhere",
        "DID NOT RAISE",
    ),
    Guard(
        "a token for a server that takes those of another issuer",
        f"{_OAUTH}.metadata",
        (("    if issuers and issuer.rstrip", "    if False and issuer.rstrip"),),
        f"{_ATTACKS}::test_server_that_names_another_issuer_never_sees_the_secret_and_both_names_are_told",
        "DID NOT RAISE",
    ),
    Guard(
        "metadata at another origin, that a server's challenge leads to",
        f"{_OAUTH}.metadata",
        (("    parts = server.at_own_origin(url)\n", "    parts = urlsplit(url)\n"),),
        f"{_ATTACKS}::test_resource_metadata_at_a_foreign_address_is_not_even_looked_up",
        "DID NOT RAISE",
    ),
    Guard(
        "a client's secret at a host that its Secret is not for",
        f"{_OAUTH}.token_endpoint",
        (("    if not hosts_allow(settings.token_hosts or None, url):\n", "    if False:\n"),),
        f"{_ATTACKS}::test_token_endpoint_must_be_on_a_host_that_the_clients_secret_may_be_sent_to",
        "DID NOT RAISE",
    ),
    Guard(
        "a client's secret in clear on the network",
        f"{_OAUTH}.metadata",
        (("    if not is_confidential(url):\n", "    if False:\n"),),
        f"{_ATTACKS}::test_token_endpoint_in_clear_outside_of_machine_and_cluster_is_refused",
        "assert",
    ),
    Guard(
        "a redirect of a token request, with the client's secret",
        f"{_OAUTH}.token_http",
        (
            (
                "        if 300 <= answer.status < 400:\n",
                (
                    "        if 300 <= answer.status < 400:\n"
                    '            at = Target.from_url(answer.headers[b"location"].decode())\n'
                    "            other = Pool(at.host, at.port, ssl=None, limit=1, clock=self._clock)\n"
                    "            await other.exchange(request, deadline=self._clock() + 5)\n"
                    "            await other.aclose()\n"
                ),
            ),
        ),
        f"{_ATTACKS}::test_redirect_of_a_token_request_is_not_followed",
        "evil.received",
    ),
    Guard(
        "a provider at an address that servers may not have, or that it has from now on",
        f"{_OAUTH}.token_http",
        (("            resolve=access.resolve,\n", ""),),
        f"{AT}/test_attacks_on_tokens.py::"
        "test_a_gateway_in_a_pod_asks_no_provider_at_an_address_that_servers_may_not_have",
        "assert",
    ),
    Guard(
        "metadata of the cloud, by the name of a server that is rebound to it",
        "fairlead_mcp.egress",
        (
            (
                "            if denial and not allowed_addresses:\n",
                "            allowed_addresses = resolved\n            if False:\n",
            ),
        ),
        f"{_ATTACKS}::test_name_of_the_server_that_is_rebound_to_metadata_of_the_cloud_is_refused_at_connect",
        "DID NOT RAISE",
    ),
    Guard(
        "metadata at an address that a server's name has only once it was looked at",
        "fairlead_mcp.egress",
        (("            return allowed_addresses\n", "            return await resolve(host, port)\n"),),
        f"{_ATTACKS}::test_metadata_is_read_at_the_address_that_was_looked_at_wherever_the_name_leads_next",
        "assert [] ==",
    ),
    Guard(
        "a caller's token for another application, in exchange for one for a server",
        "fairlead_gateway.identity.jwt_authenticator",
        ((' or not self._is_for_us(claims.get("aud"), issuer):\n', ":\n"),),
        f"{AT}/test_attacks_on_tokens.py::test_a_callers_token_for_another_application_is_exchanged_for_nothing",
        "'alice': 1",
    ),
    Guard(
        "a token for one server, at another",
        f"{_OAUTH}.grants",
        (('    target = {"resource": settings.resource, ', '    target = {"resource": "", '),),
        f"{AT}/test_attacks_on_tokens.py::test_a_token_that_one_server_was_sent_is_for_no_other",
        "'tools'",
    ),
    Guard(
        "a token of another person, from the cache",
        f"{_OAUTH}.token_source",
        (
            ("        return self._get(subject.person, ", '        return self._get(b"", '),
            ("self._cache.get(need.subject.person, ", 'self._cache.get(b"", '),
            ("        person = need.subject.person\n        key = ", '        person = b""\n        key = '),
            (
                "        person = need.subject.person\n        self._add_scopes",
                '        person = b""\n        self._add_scopes',
            ),
        ),
        f"{AT}/test_complaints_about_tokens.py::test_server_serves_all_persons_and_each_session_has_one_person",
        "'alice' != 'bob'",
    ),
    Guard(
        "a session that a server has bound to another person",
        "fairlead_gateway.upstream.server_session",
        (("    return (person, pod) if person else pod\n", "    return pod\n"),),
        f"{AT}/test_complaints_about_tokens.py::test_server_serves_all_persons_and_each_session_has_one_person",
        "assert",
    ),
    Guard(
        "a cached result of another person",
        "fairlead_gateway.calls.path.client_call",
        (("        scope_hash = scope(scope_hash, caller_scope)\n", "        pass\n"),),
        f"{AT}/test_attacks_on_tokens.py::test_a_cached_result_of_one_person_answers_no_other",
        "'alice' != 'bob'",
    ),
    Guard(
        "a token that outlives the one that it was exchanged for",
        f"{_OAUTH}.token_answer",
        (
            (
                "min(now + _lifetime(members.expires_in, request), request.subject_expires_at)",
                "now + _lifetime(members.expires_in, request)",
            ),
        ),
        f"{_SOURCES}::test_token_never_outlives_the_subject_token",
        "assert",
    ),
    Guard(
        "a parameter that replaces a standard one of a token request",
        f"{_OAUTH}.grants",
        (("    elif standard_names:\n", "    elif False:\n"),),
        "tests/unit/mcp/oauth/test_grants.py::test_extra_parameters_never_replace_a_standard_one",
        "DID NOT RAISE",
    ),
    Guard(
        "a person who fills the Secret with the grants of others",
        "fairlead_gateway.grants.secret_room",
        (("    if total > RECORDS_OF_USER_BYTES and", "    if False and"),),
        "tests/unit/gateway/grants/test_secret_room.py::test_a_person_fills_only_a_part_of_a_secret",
        "'of this person' in ''",
    ),
    Guard(
        "users who leave no room for the keys of the gateway's tokens",
        "fairlead_gateway.grants.secret_room",
        (("    if total > ALL_RECORDS_BYTES and", "    if total > MAX_BYTES and"),),
        "tests/unit/gateway/grants/test_secret_room.py::test_persons_leave_the_gateway_room_for_its_keys",
        "'is full' in ''",
    ),
)
