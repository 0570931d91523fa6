"""Guards, each with the attack that it stops: what is taken out of which module, and the test that then has to fail.

`hack/attacks` takes them out one at a time and runs the test; `tests/contract/test_threats.py` sees to it that every
line still fits the code. A guard is replaced as text while its module is loaded: nothing on disk changes.
"""

from __future__ import annotations

from dataclasses import dataclass

GATEWAY = "fairlead_gateway"
AT = "tests/component/gateway"


@dataclass(frozen=True)
class Guard:
    """`swaps` are texts of the module, each of which is there once, and what stands in its place without the guard.
    `shows` is in the report of the failed test: the attack succeeded, and nothing else went wrong.
    """

    attack: str
    module: str
    swaps: tuple[tuple[str, str], ...]
    test: str
    shows: str


def _token(attack: str, shows: str, *swaps: tuple[str, str], module: str = "identity.tokens") -> Guard:
    return Guard(attack, f"{GATEWAY}.{module}", swaps, f"{AT}/test_tokens.py::test_no_deceit_gets_in", shows)


_ENDS = (
    'for name in ("exp", "nbf", "iat"))',
    'for name in ("exp", "nbf", "iat"))\n        ends = ends or 9e9',
)
TOKENS = (
    _token("a token that never expires", "'never expires': 200", _ENDS),
    _token("a token that expires at no number", "'expires at no number': 200", _ENDS),
    _token(
        "a token of another issuer, signed with a key of ours",
        "'another issuer': 200",
        ("keys = self._keys.get(issuer) if isinstance(issuer, str) else None", "keys = [*self._keys.values()][0]"),
        ('if claims.get("iss") != issuer.issuer or not', "if not"),
    ),
    _token(
        "a token of nobody", "'no subject': 200", ('subject = claims.get("sub")', 'subject = claims.get("sub") or "x"')
    ),
    _token(
        "a token that is too large", "'oversized': 200", ("MAX_TOKEN: Final = 8 << 10", "MAX_TOKEN: Final = 1 << 30")
    ),
    _token(
        "a token whose kid is no text",
        "TypeError",
        ('if not isinstance(header.get("kid", ""), str):', "if False:"),
    ),
    _token(
        "a token that is nested deeply",
        "RecursionError",
        ("except (binascii.Error, ValueError, RecursionError):", "except (binascii.Error, ValueError):"),
    ),
)
IDENTITY = (
    Guard(
        "a session of somebody else",
        f"{GATEWAY}.endpoint.front",
        (("if session.owner != identity.owner:", "if False:"),),
        f"{AT}/test_who_asks.py::test_a_session_is_of_use_to_nobody_but_who_opened_it",
        "assert",
    ),
    Guard(
        "a stream of another session",
        f"{GATEWAY}.endpoint.resumable",
        ((" or thread.session != session", ""),),
        f"{AT}/test_resuming.py::test_a_stream_is_the_sessions_own",
        "400",
    ),
    Guard(
        "a call of somebody else that waits for its client",
        f"{GATEWAY}.calls.bridge",
        (("if call is None or call.of != of:", "if call is None:"),),
        f"{AT}/test_who_asks.py::test_a_call_that_waits_for_its_client_goes_on_for_nobody_else",
        "assert",
    ),
    Guard(
        "a server's state that somebody else got",
        f"{GATEWAY}.calls.belonging",
        (("found is None or not hmac.compare_digest(found[1], self._mac(identity.owner, state))", "found is None"),),
        f"{AT}/test_who_asks.py::test_a_servers_state_is_of_use_to_nobody_but_who_got_it",
        "assert",
    ),
    Guard(
        "a key that was revoked",
        f"{GATEWAY}.identity.identities",
        (("                del entries[key]\n", "                pass\n"),),
        f"{AT}/test_who_asks.py::test_a_revoked_credential_is_refused_with_the_next_request_of_the_same_connection",
        "401",
    ),
    Guard(
        "a Secret that was not meant to hold keys",
        f"{GATEWAY}.identity.keysecret",
        (('elif secret.metadata.labels.get(LABEL) != "true":', "elif False:"),),
        f"{AT}/test_api_keys.py::test_keys_of_a_secret_are_watched_and_its_label_is_asked_for",
        "assert",
    ),
    Guard(
        "a client that names another's address",
        f"{GATEWAY}.endpoint.proxies",
        (("if not self._is_trusted(peer):", "if False:"),),
        f"{AT}/test_proxies.py::test_the_header_of_anybody_else_has_no_effect",
        "[False, False, False]",
    ),
    Guard(
        "a claim in the token of another issuer",
        "fairlead_api.policies.subjects",
        (
            (
                'issuers = "", *claim_values(claims, "iss")',
                'issuers = [""] + [key[3] for key in self._by_key if key[0] == CLAIM]',
            ),
        ),
        f"{AT}/test_policies_about_claims.py::test_what_another_issuer_puts_into_its_tokens_is_not_believed",
        "shop__refund",
    ),
)
DOORS = (
    Guard(
        "a route of the REST plane, by nobody",
        f"{GATEWAY}.rest.guard",
        (
            (
                "verdict = self.identities.known(authorization) or await self.identities.identify(authorization)",
                'verdict = Identity(kind="anonymous", principal="anonymous")',
            ),
        ),
        f"{AT}/test_who_asks.py::test_every_route_asks_who_it_is_unless_it_is_public",
        "assert",
    ),
    Guard(
        "an MCP endpoint, by nobody",
        f"{GATEWAY}.endpoint.front",
        (
            (
                'identity = self.identities.known(exchange.headers.get(b"authorization"))',
                "identity = exchange.identity",
            ),
        ),
        f"{AT}/test_who_asks.py::test_the_endpoints_answer_nobody_whom_they_do_not_know",
        "401",
    ),
    Guard(
        "a connection without a certificate",
        f"{GATEWAY}.endpoint.tls",
        (("context.verify_mode = ssl.CERT_REQUIRED", "context.verify_mode = ssl.CERT_NONE"),),
        f"{AT}/test_tls.py::test_with_a_client_authority_nobody_connects_without_its_certificate",
        "DID NOT RAISE",
    ),
    Guard(
        "a crowd of connections",
        f"{GATEWAY}.endpoint.crowd",
        (("if self._most and self.inside >= self._most:", "if False:"),),
        f"{AT}/test_crowd.py::test_a_connection_too_many_is_told_why_and_those_inside_go_on",
        "Error",
    ),
    Guard(
        "an agent that calls all the time",
        f"{GATEWAY}.limits.limiter",
        (("if most is not None and self.busy >= most:", "if False:"),),
        "tests/unit/gateway/test_limiter.py::test_no_more_calls_at_once_than_allowed_and_the_next_when_one_is_over",
        "assert",
    ),
    Guard(
        "an agent that calls without a pause",
        f"{GATEWAY}.limits.limiter",
        (("            if wait:\n", "            if False:\n"),),
        "tests/unit/gateway/test_limiter.py::test_each_agent_has_the_calls_of_a_minute_to_itself",
        "assert",
    ),
)
SMUGGLING = (
    Guard(
        "a body with two lengths",
        f"{GATEWAY}.endpoint.server",
        (
            (
                "        self._reading: Exchange | None = None\n",
                (
                    "        self._reading = None\n"
                    "        self.parser.set_dangerous_leniencies(lenient_chunked_length=True)\n"
                ),
            ),
        ),
        f"{AT}/test_front.py::test_what_is_not_http_is_400_and_the_end",
        r"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n]",
    ),
    Guard(
        "a name in the header that is not that of the body, also in base64",
        f"{GATEWAY}.endpoint.inbound",
        (("if named is None or _named(named) != _text(params[member]):", "if False:"),),
        "tests/unit/gateway/test_inbound.py",
        "assert",
    ),
    Guard(
        "a method in the header that is not that of the body",
        f"{GATEWAY}.endpoint.inbound",
        (('if headers.get(b"mcp-method", b"") != method.encode():', "if False:"),),
        "tests/unit/gateway/test_inbound.py",
        "assert",
    ),
    Guard(
        "a name that comes twice",
        f"{GATEWAY}.endpoint.server",
        (('value if wanted not in headers else headers[wanted] + b", " + value', "value"),),
        f"{AT}/test_front.py::test_a_name_that_comes_twice_is_none",
        "400",
    ),
    Guard(
        "a host that a web page made the browser ask",
        f"{GATEWAY}.endpoint.hosts",
        (('if not self._allowed(value.decode("latin-1").lower(), self._hosts):', "if False:"),),
        f"{AT}/test_front.py::test_each_request_gets_its_status",
        "403",
    ),
    Guard(
        "a body without end",
        f"{GATEWAY}.endpoint.server",
        (("if len(exchange.body) + len(body) > self._front.bounds.body:", "if False:"),),
        f"{AT}/test_front.py::test_a_body_that_grows_too_large_is_refused",
        "413",
    ),
)
POLICIES = (
    Guard(
        "a tool that a policy denies",
        "fairlead_api.policies.merge",
        (("visible = (allowed & ~closed) | free", "visible = allowed | free | denied"),),
        f"{AT}/test_tool_policies.py::test_an_npc_may_not_search_the_web_and_the_agent_for_questions_may",
        "assert",
    ),
    Guard(
        "a policy about another team's servers",
        f"{GATEWAY}.selection.policy",
        (
            (
                "self._by_namespace.setdefault(policy.namespace, {})[place] = policy",
                "[self._by_namespace.setdefault(p.namespace, {}).update({place: policy}) for p in rules.policies]",
            ),
        ),
        "tests/component/together/test_tenants_and_policies.py::test_a_policy_takes_effect_in_its_own_namespace_alone",
        "Error",
    ),
    Guard(
        "arguments that a policy does not allow",
        f"{GATEWAY}.selection.perspective",
        (("constraint, share = self._constraints.get(ref), ", "constraint, share = None, "),),
        f"{AT}/test_policy_arguments.py::test_arguments_that_a_policy_does_not_allow_are_not_sent",
        "assert",
    ),
    Guard(
        "arguments that say a member twice, or in two spellings",
        f"{GATEWAY}.validation.constraint",
        (("if len(seen) != len(pairs):", "if False:"),),
        f"{AT}/test_policy_arguments.py::test_arguments_that_a_policy_does_not_allow_are_not_sent",
        "assert",
    ),
    Guard(
        "a result that was kept for another credential of the gateway's",
        f"{GATEWAY}.selection.route",
        (
            (
                "catalog.endpoint, catalog.credential, catalog.protocol_version",
                "catalog.endpoint, catalog.protocol_version",
            ),
        ),
        f"{AT}/test_cached_calls.py::test_another_principal_and_another_definition_get_their_own",
        "assert",
    ),
    Guard(
        "a result that was kept for another client of a server that tells clients apart",
        f"{GATEWAY}.calls.dispatch",
        (
            (
                "        if route.per_client:\n            session = self._session(route, request)\n",
                "        if False:\n            session = None\n",
            ),
        ),
        f"{AT}/test_per_client.py::test_kept_results_are_of_one_client",
        "assert",
    ),
    Guard(
        "an update about a resource of a server that was denied",
        f"{GATEWAY}.endpoint.streams",
        (("if stream is None or not self._sees(stream.exchange, params):", "if stream is None:"),),
        f"{AT}/test_watching.py::test_who_is_denied_a_server_hears_no_more_of_its_resources",
        "[True] == [False]",
    ),
)
EGRESS = (
    Guard(
        "an address that is none for servers",
        "fairlead_mcp.egress",
        (("            if refused and not good:", "            good = found\n            if refused and not good:"),),
        "tests/unit/mcp/test_egress.py::test_a_name_that_resolves_to_where_no_server_may_be_is_refused",
        "assert",
    ),
    Guard(
        "a Service of another team",
        "fairlead_mcp.egress",
        (("if owner is not None and owner != namespace:", "if False:"),),
        "tests/unit/mcp/test_egress.py",
        "a Service of namespace",
    ),
    Guard(
        "an alias for a Service of another team",
        "fairlead_mcp.egress",
        (("if not listed and isinstance(found, Resolved) and found.canonical:", "if False:"),),
        "tests/unit/mcp/test_egress.py::test_an_alias_counts_as_what_it_stands_for",
        "10.98.0.7",
    ),
    Guard(
        "a Service of another team, by its address",
        "fairlead_mcp.egress",
        (("        return another\n", '        return ""\n'),),
        "tests/unit/mcp/test_egress.py::test_a_service_of_another_namespace_is_denied_by_its_address_too",
        "198.51.100.7",
    ),
    Guard(
        "a name that changes its address once it was looked at",
        "fairlead_mcp.egress",
        (("            return good\n", "            return await resolve(host, port)\n"),),
        "tests/unit/mcp/test_egress.py::test_the_address_that_was_looked_at_is_the_one_that_is_connected_to",
        "[('127.0.0.1', 9)] ==",
    ),
    Guard(
        "the API server by another address",
        "fairlead_mcp.egress",
        ((".union(self.api_server)", " & set() | set(self.api_server)"),),
        "tests/unit/mcp/test_egress.py::test_an_alias_counts_as_what_it_stands_for",
        "10.0.0.2",
    ),
    Guard(
        "an SSE server that wants a credential posted elsewhere",
        "fairlead_mcp.http.events",
        (
            (
                'raise NotMcp(f"the server wants requests at another origin',
                'NotMcp(f"the server wants requests at another origin',
            ),
        ),
        "tests/component/mcp/test_links.py::test_a_credential_is_not_posted_to_another_origin",
        "another origin",
    ),
)
TENANCY = (
    Guard(
        "a document that was forged in a tenant's namespace",
        f"{GATEWAY}.catalog.kubeapi",
        (('return f"/api/v1/namespaces/{self.namespace}/{what}"', 'return f"/api/v1/{what}"'),),
        "tests/component/together/test_tenancy.py::test_a_forged_document_in_a_tenants_namespace_has_no_effect",
        "assert 'forged' == 'true'",
    ),
    Guard(
        "a credential in what a server shows of its own request",
        "fairlead_mcp.masking",
        (("            if value in text:\n", "            if False:\n"),),
        "tests/component/together/test_no_secret_is_told.py",
        "planted-bearer",
    ),
    Guard(
        "a Secret that was not meant to be sent",
        "fairlead_operator.kube.credentials",
        (('SELECTOR: Final = f"{LABEL_CREDENTIAL}=true"', 'SELECTOR: Final = ""'),),
        "tests/component/operator/test_credentials.py::test_a_secret_without_the_label_is_refused_until_it_has_it",
        "Error",
    ),
    Guard(
        "a port of a stdio server, without its token",
        "fairlead_operator.server.gate",
        (('"$D  -" ] || exit 1', '"$D  -" ] || true'),),
        "tests/component/mcp/test_links.py::test_a_wrong_token_starts_no_server",
        "DID NOT RAISE",
    ),
    Guard(
        "a Secret that is for other hosts",
        "fairlead_operator.kube.credentials",
        (("if not hosts_allow(secret.hosts, host):", "if False:"),),
        "tests/component/operator/test_credentials.py::test_a_secret_goes_only_to_the_hosts_that_it_names",
        "HostNotAllowed",
    ),
    Guard(
        "a `hostHeader` that names a host which a Secret is for",
        "fairlead_operator.kube.platform",
        (
            (
                'return urlsplit(server.spec.url).hostname or ""',
                'return server.spec.host_header or urlsplit(server.spec.url).hostname or ""',
            ),
        ),
        "tests/component/together/test_tenancy.py::test_a_credential_goes_to_the_hosts_that_its_secret_names_whatever_the_host_header_says",
        "Error",
    ),
    Guard(
        "a definition that changed after it was approved",
        "fairlead_operator.pinning.decide",
        (("return other is not None and bytes(one.definition) == bytes(other.definition)", "return True"),),
        "tests/unit/operator/pinning/test_pinning.py::test_the_first_listing_is_trusted_and_a_changed_one_is_held_back_while_the_first_is_served",
        "assert",
    ),
    Guard(
        "an approval of something else",
        "fairlead_operator.pinning.decide",
        (("if held and approval == held_hash(held):", "if held and approval:"),),
        "tests/unit/operator/pinning/test_pinning.py::test_an_approval_never_lets_through_what_came_after_it_was_given",
        "assert",
    ),
)
BOMBS = (
    Guard(
        "a pattern that needs back-tracking",
        f"{GATEWAY}.validation.checker",
        (
            (
                "RegexOptions(size_limit=1 << 18, dfa_size_limit=1 << 20)",
                '__import__("jsonschema_rs").FancyRegexOptions()',
            ),
        ),
        "tests/unit/gateway/test_validation.py::test_a_pattern_that_needs_back_tracking_is_left_out_and_the_rest_is_checked",
        "assert",
    ),
    Guard(
        "a pattern that looks back",
        f"{GATEWAY}.validation.checker",
        (("MAX_PATTERNS: Final = 64", "MAX_PATTERNS: Final = 1 << 30"),),
        "tests/unit/gateway/test_validation.py::test_too_many_patterns_are_all_left_out",
        "assert",
    ),
    Guard(
        "a body that is nested without end",
        f"{GATEWAY}.endpoint.inbound",
        (
            (
                "except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:",
                "except (msgspec.DecodeError, UnicodeDecodeError) as error:",
            ),
        ),
        f"{AT}/test_bombs.py::test_a_body_that_is_hard_to_read_is_refused_and_costs_nobody_else_anything",
        "500 < 500",
    ),
    Guard(
        "a schema that doubles",
        f"{GATEWAY}.validation.intricacy",
        (("MAX_WEIGHT: Final = 2_000", "MAX_WEIGHT: Final = 1 << 60"),),
        "tests/unit/gateway/test_validation.py",
        "assert",
    ),
    Guard(
        "a glob that matches a part of a name",
        "fairlead_api.policies.globs",
        (("return self.expression.fullmatch(name) is not None", "return self.expression.search(name) is not None"),),
        "tests/unit/api/test_policy_globs.py::test_a_glob_matches_whole_names",
        "assert",
    ),
)
GUARDS = (*TOKENS, *IDENTITY, *DOORS, *SMUGGLING, *POLICIES, *EGRESS, *TENANCY, *BOMBS)
