"""Guards of stored grants of users, and of users' accounts at servers. See `guards`."""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

_UNIT = "tests/unit/gateway/grants"
_CONSENTS = "tests/component/mcp/oauth/test_consent_attacks.py"
_REST = "tests/component/rest/test_accounts.py"
_SIGN_INS = "tests/component/authorization/test_listed_sign_ins.py"
_OF_OTHERS = (
    ("    if not may_read(", "    if False and not may_read("),
    ("    if (not person_id or person_id != person_of(identity)) and", "    if False and"),
)

ACCOUNTS = (
    Guard(
        "a grant for one server, put in the place of that for another",
        f"{GATEWAY}.grants.sealing",
        (("    return msgspec.json.encode((key.person, key.server, issuer, version, key_id))\n", '    return b""\n'),),
        f"{_UNIT}/test_sealing.py::test_a_record_of_another_server_is_refused",
        "DID NOT RAISE",
    ),
    Guard(
        "a grant of somebody else, put in one's own place",
        f"{GATEWAY}.grants.sealing",
        (
            ("    return msgspec.json.encode((key.person, key.server, issuer, version, key_id))\n", '    return b""\n'),
            ("info=_INFO + person", "info=_INFO"),
        ),
        f"{_UNIT}/test_folder_store.py::test_a_record_in_the_place_of_another_one_is_refused_and_not_listed",
        "DID NOT RAISE",
    ),
    Guard(
        "a person's token for one server, at another that took its name",
        "fairlead_mcp.oauth.consented_grants",
        (("        if grant.server_address != self._access.address:\n", "        if False:\n"),),
        f"{_CONSENTS}::test_token_of_a_grant_is_not_obtained_for_a_server_that_has_another_url_by_now",
        "DID NOT RAISE",
    ),
    Guard(
        "a person's token for a server that was removed, at another in its place",
        "fairlead_mcp.oauth.consented_grants",
        (("        elif grant.server_uid != self._access.server_uid:\n", "        elif False:\n"),),
        f"{_CONSENTS}::test_token_of_a_grant_is_not_obtained_for_another_server_of_its_name",
        "DID NOT RAISE",
    ),
    Guard(
        "a person's refresh token, at a token endpoint that settings name later",
        "fairlead_mcp.oauth.consented_grants",
        (("        elif grant.token_url != settings.token_url:\n", "        elif False:\n"),),
        f"{_CONSENTS}::test_refresh_token_goes_to_no_token_endpoint_that_settings_name_later",
        "gave no token",
    ),
    Guard(
        "a code for one server, redeemed for another that took its name meanwhile",
        "fairlead_mcp.oauth.consent",
        (("        if authorization.settings != self._digest:\n", "        if False:\n"),),
        f"{_CONSENTS}::test_code_is_not_redeemed_for_another_server_of_the_name_that_it_was_requested_for",
        "DID NOT RAISE",
    ),
    Guard(
        "a request to the gateway's own machine, by an authorization server that a remote server names",
        "fairlead_mcp.oauth.named_hosts",
        (("    if settings.issuer or settings.token_url:\n", "    if settings:\n"),),
        "tests/component/mcp/oauth/test_named_hosts.py::"
        "test_metadata_of_a_remote_server_leads_to_no_address_of_this_machine",
        "DID NOT RAISE",
    ),
    Guard(
        "a refresh token that a slower process puts back in the place of its successor",
        f"{GATEWAY}.grants.folder_store",
        (("            if replaces is not None and replaces != self._version(path):\n", "            if False:\n"),),
        f"{_UNIT}/test_folder_store.py::test_a_grant_replaces_only_the_version_that_the_writer_has_read",
        "is None",
    ),
    Guard(
        "a key of grants in a keyring of plain text",
        f"{GATEWAY}.grants.machine_keys",
        (
            (
                '        if package == "keyring.backends" and module in _SYSTEM_BACKENDS:\n',
                "        if package and module:\n",
            ),
        ),
        f"{_UNIT}/test_machine_keys.py::test_only_keyrings_of_systems_are_used",
        "is False",
    ),
    Guard(
        "a result that was cached for the account that a person had before",
        f"{GATEWAY}.upstream.outbound_credentials",
        (("return None if token is None else person + token.header_line", "return person"),),
        f"{AT}/test_ended_accounts.py::test_a_cached_result_ends_with_the_account_that_it_was_for",
        "assert 'alice' == 'bob'",
    ),
    Guard(
        "a session with a server that was opened by another account of the same person",
        "fairlead_mcp.oauth.token_source",
        (("        self._access.on_forget(person)\n", ""),),
        f"{AT}/test_sessions_of_accounts.py::test_no_session_of_one_account_is_used_by_another_of_the_same_person",
        "assert",
    ),
    Guard(
        "a session with a server that outlives its account, at another gateway without a token of it",
        f"{GATEWAY}.upstream.registry",
        (("            in_use = entry.connection.upstream.has_sessions_of(person)\n", "            in_use = False\n"),),
        f"{AT}/test_sessions_of_accounts.py::test_a_session_ends_with_its_account_also_where_its_token_has_expired",
        "TimeoutError",
    ),
    Guard(
        "a grant that is used at one gateway after it was ended at another",
        f"{GATEWAY}.grants.ended_grants",
        (("            await self._tokens.review(server, key.person)\n", "            pass\n"),),
        f"{AT}/test_ended_accounts.py::"
        "test_a_gateway_drops_its_token_of_an_ended_grant_that_the_server_would_still_take",
        "the other gateway refuses: not within",
    ),
    Guard(
        "a grant that is used after it was ended while its store did not answer",
        f"{GATEWAY}.grants.reviewed_changes",
        (("                self._has_unreviewed.set()\n", ""),),
        f"{_UNIT}/test_ended_grants.py::test_a_change_that_the_store_does_not_explain_is_looked_at_until_it_does",
        "TimeoutError",
    ),
    Guard(
        "registrations without end, each at another issuer that a server names",
        "fairlead_mcp.oauth.client_registrations",
        (("            await self._delete_excess(key, redirect_uri)\n", ""),),
        f"{_CONSENTS}::test_issuers_without_end_leave_few_registrations",
        "assert",
    ),
    Guard(
        "the accounts of others, for a principal that may not see them",
        "fairlead_rest.persons",
        _OF_OTHERS,
        f"{_REST}::test_each_person_sees_and_ends_their_own_accounts_alone",
        "application/problem+json",
    ),
    Guard(
        "the clients that others have signed in, for a principal that may not see them",
        "fairlead_rest.persons",
        _OF_OTHERS,
        f"{_SIGN_INS}::test_a_person_sees_and_ends_their_own_sign_ins_alone",
        "assert 401 == 200",
    ),
    Guard(
        "a client that its person has ended, and that comes back without being asked for",
        "fairlead_authorization.sessions.sign_ins",
        (("            if key.server.startswith(consents.PREFIX) and", "            if False and"),),
        f"{_SIGN_INS}::test_a_client_that_was_ended_asks_for_consent_again",
        "assert 'Desk' in",
    ),
)
