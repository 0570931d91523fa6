"""Guards that keep clients from acting as others, and from seeing and doing what they may not: see `guards`."""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

NAMES = f"{AT}/test_names_of_issuers.py"


def _token(attack: str, shows: str, *swaps: tuple[str, str], module: str = "identity.jwt_authenticator") -> Guard:
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
        "a token whose kid is not a text",
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
        f"{GATEWAY}.endpoint.session_claims",
        (("if session.owner != owner:", "if False:"),),
        f"{AT}/test_who_asks.py::test_a_session_is_of_use_to_nobody_but_who_opened_it",
        "assert",
    ),
    Guard(
        "a stream of another session",
        f"{GATEWAY}.endpoint.event_store",
        ((" or stream.session != session", ""),),
        f"{AT}/test_resuming.py::test_a_stream_is_the_sessions_own",
        "400",
    ),
    Guard(
        "a server that starts and is kept from somebody, found by a call",
        f"{GATEWAY}.policy.unready_servers",
        (("if may_see(selection, identity, entry.key, tool):", "if True:"),),
        f"{AT}/test_servers_that_start.py::test_callers_without_a_tool_of_a_server_do_not_learn_that_it_starts",
        "same_but",
    ),
    Guard(
        "what a server wrote, read by somebody who may use it",
        "fairlead_rest.resources.servers",
        (("if not may_read(context, request, catalog.identity):", "if False:"),),
        f"{AT}/test_servers_that_start.py::test_messages_of_failed_servers_are_told_to_administrators_alone",
        "hunter2",
    ),
    Guard(
        "a call of somebody else that waits for its client",
        f"{GATEWAY}.calls.questions.input_required",
        (("if call is None or call.call_key != call_key:", "if call is None:"),),
        f"{AT}/test_who_asks.py::test_a_call_that_waits_for_its_client_goes_on_for_nobody_else",
        "assert",
    ),
    Guard(
        "a server's state that somebody else got",
        f"{GATEWAY}.calls.sealed.seals",
        (('value if self.verifies(mark[1], owner, f"{source} {value}") else None', "value"),),
        f"{AT}/test_who_asks.py::test_a_servers_state_is_of_use_to_nobody_but_who_got_it",
        "assert",
    ),
    Guard(
        "a task of somebody else, or by an id that was altered",
        f"{GATEWAY}.calls.sealed.seals",
        (("match is None or not self.verifies(match[1], owner, match[2])", "match is None"),),
        f"{AT}/test_tasks.py::test_a_task_cannot_be_reached_by_another_principal",
        "KeyError: 'error'",
    ),
    Guard(
        "a task whose tool is denied meanwhile",
        f"{GATEWAY}.policy.view",
        ((".get(server, {}).get(tool)", ".get(server, {}).get(tool, 'demo__plain')"),),
        f"{AT}/test_tasks.py::test_a_task_is_decided_about_with_each_request",
        "KeyError: 'error'",
    ),
    Guard(
        "a task sealed by a gateway with another key",
        f"{GATEWAY}.calls.sealed.task_ids",
        (('self._seal = Seal(key, "tasks")', 'self._seal = Seal(b"any", "tasks")'),),
        f"{AT}/test_tasks.py::test_a_task_outlives_the_gateway_and_is_known_to_each_replica_with_its_key",
        "KeyError: 'error'",
    ),
    Guard(
        "a task of a process at another replica, under the id of somebody else's",
        f"{GATEWAY}.upstream.shared_stream",
        (("if about_task and process not in (None, request.affinity_tag):", "if False:"),),
        f"{AT}/test_tasks.py::test_a_task_of_a_process_at_another_replica_is_refused_by_its_cause",
        "KeyError: 'error'",
    ),
    Guard(
        "tasks that take every process of a server whose clients have their own",
        f"{GATEWAY}.upstream.per_client",
        (("return self._task_sessions < max(1, self._max_sessions // 2)", "return True"),),
        f"{AT}/test_per_client_tasks.py::test_processes_with_tasks_are_half_of_all_and_calls_have_the_others",
        "KeyError: 'content'",
    ),
    Guard(
        "what another client said to a question, in a result that was kept",
        f"{GATEWAY}.calls.path.call",
        (
            (
                "            key, self._cache_key = self._cache_key, None\n            self.context.cache.fail(key)",
                "            key, self._cache_key = self._cache_key, self._cache_key",
            ),
        ),
        f"{AT}/test_cached_calls.py::test_a_result_after_a_question_to_its_client_is_not_cached",
        "assert",
    ),
    Guard(
        "a task of somebody else, listened to",
        f"{GATEWAY}.calls.sealed.seals",
        (("match is None or not self.verifies(match[1], owner, match[2])", "match is None"),),
        f"{AT}/test_task_notifications.py::test_notifications_of_a_task_reach_its_owner_alone",
        "taskIds",
    ),
    Guard(
        "a task listened to whose tool is denied meanwhile",
        f"{GATEWAY}.calls.subscriptions.task_subscriptions",
        (
            (
                "route = listener.find(task)\n        if",
                'route = vars(self).setdefault("once", listener.find(task))\n        if',
            ),
            ("listener.find(task) is not None and ", ""),
        ),
        f"{AT}/test_task_notifications.py::test_notifications_of_a_task_end_when_its_tool_is_denied",
        "notifications/tools/list_changed",
    ),
    Guard(
        "a key that was revoked",
        f"{GATEWAY}.identity.request_authentication",
        (("                del entries[key]\n", "                pass\n"),),
        f"{AT}/test_who_asks.py::test_a_revoked_credential_is_refused_with_the_next_request_of_the_same_connection",
        "401",
    ),
    Guard(
        "a Secret that was not meant to hold keys",
        f"{GATEWAY}.identity.keys_in_secret",
        (('if item.metadata.labels.get(LABEL) != "true":', "if False:"),),
        f"{AT}/test_api_keys.py::test_keys_of_a_secret_are_watched_and_its_label_is_asked_for",
        "assert",
    ),
    Guard(
        "a client that names another's address",
        f"{GATEWAY}.endpoint.trusted_proxies",
        (("if not self._is_trusted(peer):", "if False:"),),
        f"{AT}/test_proxies.py::test_the_header_of_anybody_else_has_no_effect",
        "[False, False, False]",
    ),
    Guard(
        "a claim in the token of another issuer",
        "fairlead_api.policies.subjects",
        (
            (
                'issuer_values = "", *claim_values(claims, "iss"), *issuers, ANY_ISSUER',
                'issuer_values = [""] + [key[3] for key in self._by_key if key[0] == CLAIM]',
            ),
        ),
        f"{AT}/test_policies_about_claims.py::test_claims_of_another_issuer_are_not_believed",
        "shop__refund",
    ),
    Guard(
        "the name of an agent or a group in the token of another issuer",
        "fairlead_api.policies.subjects",
        (("for issuer in (*issuers, ANY_ISSUER)]", 'for issuer in (*issuers, ANY_ISSUER, "corp")]'),),
        f"{NAMES}::test_the_same_name_from_another_issuer_is_somebody_else",
        "assert not True",
    ),
    Guard(
        "a name that two issuers may give, in a policy that says of neither",
        f"{GATEWAY}.identity.names",
        (("if self.has_several or self._is_reserved(key) or self.is_name_of_key(key)", "if False"),),
        f"{NAMES}::test_a_name_without_an_issuer_gives_nothing_where_there_are_two",
        "[True, True]",
    ),
    Guard(
        "the name of an API key in a token",
        f"{GATEWAY}.identity.names",
        ((" or self.is_name_of_key(key)}", "}"),),
        f"{NAMES}::test_a_name_that_an_api_key_carries_is_not_a_tokens",
        "assert not True",
    ),
    Guard(
        "keys of an issuer from where there is no TLS",
        f"{GATEWAY}.identity.jwks",
        (("if not is_private(metadata.jwks_uri, self.issuer):", "if False:"),),
        f"{AT}/test_issuers_without_tls.py::test_a_discovery_that_leads_to_keys_without_tls_is_not_followed",
        "assert Identity(kind='jwt'",
    ),
)
DOORS = (
    Guard(
        "a route of the REST plane, by nobody",
        "fairlead_web.guard",
        (
            (
                "verdict = self.identities.recall(authorization) or await self.identities.identify(authorization)",
                'verdict = Identity(kind="anonymous", principal="anonymous")',
            ),
        ),
        f"{AT}/test_who_asks.py::test_every_route_asks_who_it_is_unless_it_is_public",
        "assert",
    ),
    Guard(
        "an MCP endpoint, by nobody",
        f"{GATEWAY}.endpoint.mcp_endpoint",
        (
            (
                'identity = self.identities.recall(exchange.headers.get(b"authorization"))',
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
        f"{GATEWAY}.limits.shares",
        (('"connections", limit or sys.maxsize,', '"connections", sys.maxsize,'),),
        f"{AT}/test_crowd.py::test_a_connection_too_many_is_told_why_and_those_inside_go_on",
        "Error",
    ),
    Guard(
        "a client without a credential that takes another IPv6 address for each call",
        "fairlead_mcp.addresses",
        (('return _network(address) if ":" in address else address', "return address"),),
        f"{AT}/test_ipv6.py::test_anonymous_clients_of_one_ipv6_network_are_one_agent",
        "assert [False, False",
    ),
    Guard(
        "clients that read none of their answers",
        f"{GATEWAY}.limits.buffers",
        (
            ("return self.max_bytes > 0 and (self.unread >= self.half or", "return False and ("),
            ("return not self.max_bytes or (self.unread < self.half and", "return True or ("),
        ),
        f"{AT}/test_unread_answers.py::test_servers_are_not_read_and_requests_are_refused_while_clients_leave_a_budget_unread",
        "TimeoutError",
    ),
    Guard(
        "a web page that asks the operations port",
        f"{GATEWAY}.endpoint.page_server",
        (
            (
                "rejection = None if request.path in self._public_paths else self._check_headers(request)",
                "rejection = None",
            ),
        ),
        f"{AT}/test_operations_port.py::test_a_web_page_that_made_a_browser_ask_learns_nothing",
        "421",
    ),
    Guard(
        "an agent that calls all the time",
        f"{GATEWAY}.limits.limiter",
        (("if limit is not None and self.busy >= limit:", "if False:"),),
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
_NO_TRAILER = (
    "        if not self.in_head:\n            return  # a trailer",
    "        if False:\n            return  # a trailer",
)
_NO_BOUND = ("if self._overhead > self._service.bounds.head:", "if self.in_head and self._overhead > 65536:")
_NO_SIZE = ("if len(value) <= _MAX_CACHED_BYTES and len(self._good_hosts)", "if len(self._good_hosts)")
FRAMING = (
    Guard(
        "trailers and chunk extensions without end",
        f"{GATEWAY}.endpoint.reader",
        (_NO_BOUND,),
        f"{AT}/test_framing.py::test_chunk_extensions_and_trailers_are_bounded",
        "== (431, 'close')",
    ),
    Guard(
        "trailers that cost more than they are long",
        f"{GATEWAY}.endpoint.reader",
        (_NO_BOUND, _NO_TRAILER, ("if self._field_count > MAX_FIELDS:", "if False:")),
        "tests/fuzz/test_costs.py::test_floods_that_become_no_request_cost_next_to_nothing",
        "of trailers",
    ),
    Guard(
        "a credential in a trailer",
        f"{GATEWAY}.endpoint.reader",
        (_NO_TRAILER,),
        f"{AT}/test_framing.py::test_a_credential_in_a_trailer_lets_nobody_in",
        "200 == 401",
    ),
    Guard(
        "another's address in a trailer",
        f"{GATEWAY}.endpoint.reader",
        (_NO_TRAILER,),
        f"{AT}/test_framing.py::test_an_address_in_a_trailer_is_nobodys",
        "[False, False] == [False, True]",
    ),
    Guard(
        "a target that names another host than `Host`",
        f"{GATEWAY}.endpoint.framing",
        (('if target[:1] == b"/":', "if True:"),),
        f"{AT}/test_framing.py::test_mcp_and_rest_judge_the_head_of_a_request_alike",
        "assert 200 in (403, 421)",
    ),
    Guard(
        "a coding that another server undoes",
        f"{GATEWAY}.endpoint.framing",
        (('raise FramingError(501, "Transfer-Encoding has a coding other than chunked")', "return"),),
        f"{AT}/test_framing.py::test_a_coding_that_is_not_undone_is_refused",
        "200 == 501",
    ),
    Guard(
        "thousands of requests that wait on one connection",
        f"{GATEWAY}.endpoint.reader",
        (("if self._sink.waiting >= MAX_PIPELINED:", "if False:"),),
        f"{AT}/test_framing.py::test_requests_that_wait_on_one_connection_are_counted",
        "== 128",
    ),
    Guard(
        "long hosts that fill the memory",
        "fairlead_mcp.addresses",
        (_NO_SIZE,),
        "tests/fuzz/test_costs.py::test_memos_of_unauthenticated_clients_hold_short_values_alone",
        "of hosts",
    ),
)
SMUGGLING = (
    Guard(
        "a body with two lengths",
        f"{GATEWAY}.endpoint.reader",
        (
            (
                "        self._exchange: HttpExchange | None = None\n",
                (
                    "        self._exchange = None\n"
                    "        self.parser.set_dangerous_leniencies(lenient_chunked_length=True)\n"
                ),
            ),
        ),
        f"{AT}/test_mcp_endpoint.py::test_bytes_that_are_not_http_get_400_and_end_the_connection",
        r"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n]",
    ),
    Guard(
        "a name in the header that is not that of the body, also in base64",
        f"{GATEWAY}.endpoint.inbound",
        (("if header_name is None or _decode_name(header_name) != request.name:", "if False:"),),
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
        f"{GATEWAY}.endpoint.reader",
        (('value if header_name not in headers else headers[header_name] + b", " + value', "value"),),
        f"{AT}/test_mcp_endpoint.py::test_an_mcp_name_header_that_comes_twice_is_refused",
        "400",
    ),
    Guard(
        "a host that a web page made the browser ask",
        "fairlead_mcp.addresses",
        (('if not self._allows(value.decode("latin-1").lower(), self._hosts):', "if False:"),),
        f"{AT}/test_mcp_endpoint.py::test_each_request_gets_its_status",
        "403",
    ),
    Guard(
        "a page of another program of the machine, where calls need no credential",
        f"{GATEWAY}.endpoint.mcp_endpoint",
        (("access.allow.has_chosen_origins or not access.identities.answers_anybody", "True"),),
        f"{AT}/test_web_pages.py::test_page_of_the_machine_cannot_call_where_no_credential_is_needed",
        "(200, 400, 200) == (405, 400, 200)",
    ),
    Guard(
        "what servers printed, read by somebody who is not an administrator",
        "fairlead_rest.log_access",
        (("if not context.administers(identity):", "if False:"),),
        "tests/component/rest/test_logs_of_servers.py::test_printed_lines_of_servers_are_shown_to_administrators_alone",
        "200",
    ),
    Guard(
        "what servers printed, read from another machine where nobody is asked who they are",
        "fairlead_rest.log_access",
        (("if context.guard.identities.open and not is_local(request):", "if False:"),),
        "tests/component/rest/test_logs_of_servers.py::test_where_nobody_is_asked_who_they_are_only_this_machine_reads_it",
        "200",
    ),
    Guard(
        "a body without end",
        f"{GATEWAY}.endpoint.reader",
        (("if len(exchange.body) + len(body) > self._service.bounds.body:", "if False:"),),
        f"{AT}/test_mcp_endpoint.py::test_a_body_that_grows_too_large_is_refused",
        "413",
    ),
)
