"""Guards of assertions that are exchanged for access tokens, with their attacks. See `guards`."""

from __future__ import annotations

from product_guard import Guard

_TEST = "tests/component/authorization/test_assertions.py"
_CHECKS = "fairlead_authorization.protocol.assertions"
_GRANT = "fairlead_authorization.protocol.assertion_grant"

ASSERTIONS = (
    Guard(
        "an ID token or access token of a person as an identity assertion",
        _GRANT,
        (("verify(assertion, issuer, ASSERTION_TYPES)", "verify(assertion, issuer)"),),
        f"{_TEST}::test_assertion_of_another_type_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion as an access token",
        "fairlead_gateway.identity.jwt_authenticator",
        ((' and str(header.get("typ", "JWT")).lower() in types', ""),),
        f"{_TEST}::test_assertion_is_not_an_access_token",
        "200 == 401",
    ),
    Guard(
        "an identity assertion of an issuer whose assertions are not taken",
        _GRANT,
        (("if not isinstance(issuer, str) or issuer not in assertions.issuers:", "if not isinstance(issuer, str):"),),
        f"{_TEST}::test_assertion_of_an_issuer_that_only_signs_people_in_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion for another authorization server",
        _CHECKS,
        (
            (
                '    if len(names) != 1 or not isinstance(names[0], str) or names[0].rstrip("/") != issuer:\n',
                "    if False:\n",
            ),
        ),
        f"{_TEST}::test_assertion_for_another_server_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion for several authorization servers",
        _CHECKS,
        (("    if len(names) != 1 or ", "    if not names or "),),
        f"{_TEST}::test_assertion_for_several_servers_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion that was issued to another client",
        _CHECKS,
        (('    if claims.get("client_id") != client.id:\n', "    if False:\n"),),
        f"{_TEST}::test_assertion_for_another_client_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion by a client that can be anybody",
        _GRANT,
        (("        check_client(client)\n", ""),),
        f"{_TEST}::test_client_that_nobody_can_tell_from_another_exchanges_nothing",
        "(200, ",
    ),
    Guard(
        "an identity assertion for a resource elsewhere",
        _CHECKS,
        (
            (
                "    if not resources or len(resources) < len(claimed):\n",
                "    resources = resources or [issuer]\n    if False:\n",
            ),
        ),
        f"{_TEST}::test_assertion_for_a_resource_elsewhere_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion for a resource here and one elsewhere",
        _CHECKS,
        (("    if not resources or len(resources) < len(claimed):\n", "    if not resources:\n"),),
        f"{_TEST}::test_assertion_for_a_resource_here_and_one_elsewhere_is_refused",
        "200 == 400",
    ),
    Guard(
        "a token for a wider resource than that of the identity assertion",
        _CHECKS,
        (("    if not any(is_at(resource, each) for each in resources):\n", "    if False:\n"),),
        f"{_TEST}::test_request_does_not_widen_the_resource_of_an_assertion",
        "(200, None)",
    ),
    Guard(
        "a token with more scopes than the identity assertion",
        _CHECKS,
        (("if scope in granted and scope in requested_scopes", "if scope in requested_scopes"),),
        f"{_TEST}::test_token_has_no_more_scopes_than_the_assertion",
        "mcp:tools mcp:admin",
    ),
    Guard(
        "an identity assertion that is used twice",
        "fairlead_authorization.sessions.temporary_records",
        (('write(key, record, "")', "write(key, record)"),),
        f"{_TEST}::test_assertion_is_good_once",
        "200, 200",
    ),
    Guard(
        "an identity assertion that was used at another replica",
        "fairlead_authorization.sessions.temporary_records",
        (('write(key, record, "")', "write(key, record)"),),
        "tests/unit/authorization/sessions/test_spent_assertions.py::test_assertion_is_good_once_over_all_replicas",
        "assert not True",
    ),
    Guard(
        "an identity assertion without end, whose use is kept as long",
        _CHECKS,
        (("    if expires_at > now + MAX_SECONDS + SKEW_SECONDS:\n", "    if False:\n"),),
        f"{_TEST}::test_assertion_that_lives_long_is_refused",
        "200 == 400",
    ),
    Guard(
        "an identity assertion without a name, whose use cannot be remembered",
        _CHECKS,
        (("    if not isinstance(name, str) or not 0 < len(name) <= MAX_ID:\n", "    if False:\n"),),
        f"{_TEST}::test_assertion_without_a_name_or_subject_is_refused",
        "200 == 400",
    ),
    Guard(
        "the token of a ServiceAccount for another server",
        "fairlead_gateway.identity.serviceaccounts",
        (("        if not review.authenticated:\n", "        if False:\n"), ("if not is_accepted or not", "if not")),
        f"{_TEST}::test_token_of_a_workload_for_another_audience_is_refused",
        "(200, ",
    ),
    Guard(
        "a token for a resource elsewhere, by a ServiceAccount",
        _CHECKS,
        (("    if resource_url is None:\n", "    resource_url = resource_url or resource or issuer\n    if False:\n"),),
        f"{_TEST}::test_workload_asks_for_no_resource_elsewhere",
        "(200, ",
    ),
)
