"""Guards that keep servers, and tenants who declare them, from data and rights of others: see `guards`."""

from __future__ import annotations

from product_guard import AT, GATEWAY, Guard

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
        f"{GATEWAY}.policy.rules",
        (
            (
                "self._by_namespace.setdefault(policy.namespace, {})[index] = policy",
                "[self._by_namespace.setdefault(p.namespace, {}).update({index: policy}) for p in rules.policies]",
            ),
        ),
        "tests/component/together/test_tenants_and_policies.py::test_a_policy_takes_effect_in_its_own_namespace_alone",
        "Error",
    ),
    Guard(
        "arguments that a policy does not allow",
        f"{GATEWAY}.policy.constraints",
        (("lambda rules: rules.constraints", "lambda rules: {}"),),
        f"{AT}/test_policy_arguments.py::test_arguments_that_a_policy_does_not_allow_are_not_sent",
        "assert",
    ),
    Guard(
        "arguments that say a member twice, or in two spellings",
        "fairlead_mcp.members",
        (
            ("if _has_repeated_member(document, reencoded):", "if False:"),
            ("if _encode(_decode(raw)) != raw:", "if False:"),
        ),
        f"{AT}/test_policy_arguments.py::test_arguments_that_a_policy_does_not_allow_are_not_sent",
        "assert",
    ),
    Guard(
        "a result that was kept for another credential of the gateway's",
        f"{GATEWAY}.calls.routes.routing",
        (
            (
                "catalog.endpoint, catalog.credential, catalog.oauth, catalog.protocol_version",
                "catalog.endpoint, catalog.oauth, catalog.protocol_version",
            ),
        ),
        f"{AT}/test_cached_calls.py::test_another_principal_and_another_definition_get_their_own",
        "assert",
    ),
    Guard(
        "a result that was kept for another client of a server that tells clients apart",
        f"{GATEWAY}.calls.path.client_call",
        (("    if route.per_client:\n", "    if False:\n"),),
        f"{AT}/test_per_client.py::test_cached_results_are_of_one_client",
        "assert",
    ),
    Guard(
        "an update about a resource of a server that was denied",
        f"{GATEWAY}.endpoint.notification_streams",
        (("if stream is None or not self._has_resource(stream.exchange, params):", "if stream is None:"),),
        f"{AT}/test_watching.py::test_resource_updates_end_when_the_server_is_denied_to_their_client",
        "[True] == [False]",
    ),
)
TENANCY = (
    Guard(
        "a document that was forged in a tenant's namespace",
        f"{GATEWAY}.catalog.kube",
        (("Scope(CONFIG_MAPS, ConfigMap, namespace, DOCUMENTS)", "Scope(CONFIG_MAPS, ConfigMap, None, DOCUMENTS)"),),
        "tests/component/together/test_tenancy.py::test_a_forged_document_in_a_tenants_namespace_has_no_effect",
        "assert 'forged' == 'true'",
    ),
    Guard(
        "the public names of a server that was deleted",
        "fairlead_operator.server.prefixes",
        (("            claimants |= self.reserve(claim.prefix, key)\n", "            pass\n"),),
        "tests/component/together/test_prefix_owners.py::test_a_deleted_servers_prefix_stays_with_its_owner",
        "AssertionError: told: not within",
    ),
    Guard(
        "the public names of a server that is younger, by a changed prefix",
        "fairlead_operator.server.prefixes",
        (("if self._start_phase_ended and holder not in (None, key):", "if False:"),),
        "tests/unit/operator/test_prefix_owners.py::test_a_server_that_is_older_takes_no_prefix_by_changing_its_own",
        "namespace: 'team-b' != 'strict'",
    ),
    Guard(
        "the public names of all namespaces, reserved by one that creates and deletes servers",
        "fairlead_operator.server.prefixes",
        (
            (
                "while counts and (max(counts.values()) > MAX_PER_NAMESPACE or counts.total() > MAX_RESERVATIONS):",
                "while False:",
            ),
        ),
        "tests/unit/operator/test_prefix_owners.py::test_a_namespace_has_so_many_reservations_and_the_one_that_ends_first_makes_room",
        "AssertionError",
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
        "an optional Secret that was not meant for a server",
        "fairlead_operator.kube.credentials",
        (
            (
                "if not reference.optional or verdict.cause in _NOT_ABSENT:",
                "if not reference.optional:",
            ),
            ("            absent.add(reference.name)\n", ""),
        ),
        "tests/component/operator/test_pod_templates.py::test_pods_get_no_secret_without_the_label_whatever_refers_to_it",
        "ResolvedRefs",
    ),
    Guard(
        "a Secret that a volume reads",
        "fairlead_operator.server.secret_references",
        (('    if secret := _object(volume, "secret"):\n', "    if secret := {}:\n"),),
        "tests/component/operator/test_pod_templates.py::test_pods_get_no_secret_without_the_label_whatever_refers_to_it",
        "ResolvedRefs",
    ),
    Guard(
        "a pod of a server that asks for its node",
        "fairlead_operator.server.spec_checks",
        (("or not templates.restricts(server.metadata.namespace):", "or True:"),),
        "tests/component/operator/test_pod_templates.py::test_an_unrestricted_template_is_refused_with_the_switch",
        "Accepted",
    ),
    Guard(
        "a port of a stdio server, without its token",
        "fairlead_operator.server.stdio_gate",
        (('"$D  -" ] || exit 1', '"$D  -" ] || true'),),
        "tests/component/mcp/test_links.py::test_a_wrong_token_starts_no_server",
        "DID NOT RAISE",
    ),
    Guard(
        "a Secret that is for other hosts",
        "fairlead_operator.kube.credentials",
        (("if not hosts_allow(secret.hosts, url):", "if False:"),),
        "tests/component/operator/test_credentials.py::test_a_secret_goes_only_to_the_hosts_that_it_names",
        "HostNotAllowed",
    ),
    Guard(
        "a Secret that would go out in clear, or to another port of its host",
        "fairlead_mcp.credential_hosts",
        (("    if entry.scheme:\n", "    if True:\n        return True\n    if entry.scheme:\n"),),
        "tests/unit/mcp/test_credential_hosts.py",
        "assert",
    ),
    Guard(
        "a `hostHeader` that names a host which a Secret is for",
        "fairlead_operator.kube.platform",
        (
            (
                "self._resolver.resolve(server, request_url(server))",
                "self._resolver.resolve(server, f'http://{server.spec.host_header or server.spec.url[7:]}')",
            ),
        ),
        "tests/component/together/test_tenancy.py::test_a_credential_goes_to_the_hosts_that_its_secret_names_whatever_the_host_header_says",
        "Error",
    ),
    Guard(
        "a definition that changed after it was approved",
        "fairlead_operator.pinning.pin_decision",
        (("return other is not None and bytes(definition.definition) == bytes(other.definition)", "return True"),),
        "tests/unit/operator/pinning/test_pinning.py::test_the_first_listing_is_trusted_and_a_changed_one_is_held_back_while_the_first_is_served",
        "assert",
    ),
    Guard(
        "an approval of something else",
        "fairlead_operator.pinning.pin_decision",
        (
            (
                "if held and approved_hashes and (hash_ := held_hash(held)) in approved_hashes:",
                "if held and approved_hashes and (hash_ := held_hash(held)):",
            ),
        ),
        "tests/unit/operator/pinning/test_pinning.py::test_an_approval_never_lets_through_what_came_after_it_was_given",
        "assert",
    ),
)
BOMBS = (
    Guard(
        "a server that leads back to the gateway",
        "fairlead_mcp.via",
        (("if installation.encode() in entries:", "if False:"),),
        f"{AT}/test_loops.py::test_a_call_that_comes_back_is_refused_at_its_first_return",
        "assert",
    ),
    Guard(
        "a bridge over stdio that leads back to the gateway",
        "fairlead_operator.local.platform",
        (("                via.refuse_own(session.negotiated.gateways, self._installation)\n", ""),),
        "tests/component/operator/test_bridges_back.py::test_a_process_that_leads_back_is_refused_and_others_are_not",
        "DID NOT RAISE",
    ),
    Guard(
        "a pattern that needs back-tracking",
        "fairlead_tools.validation.schema_compiler",
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
        "fairlead_tools.validation.schema_compiler",
        (("MAX_PATTERNS: Final = 64", "MAX_PATTERNS: Final = 1 << 30"),),
        "tests/unit/gateway/test_validation.py::test_patterns_beyond_the_bound_are_all_left_out",
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
        "arguments that are nested so deeply that what is wrong with them cannot be said",
        "fairlead_tools.validation.checker",
        (("    except ValueError:", "    except ZeroDivisionError:"),),
        f"{AT}/test_bombs.py::test_arguments_that_are_nested_too_deeply_to_be_explained_are_invalid_and_logged_nowhere",
        "-32603",
    ),
    Guard(
        "nested arguments that hold everybody up while a policy looks at them",
        "fairlead_tools.validation.constraint",
        (
            ("if len(raw) > MAX_ARGUMENT_BYTES:", "if False:"),
            ('if raw.count(b",") + raw.count(b"{") + raw.count(b"[") > MAX_VALUES:', "if False:"),
        ),
        "tests/fuzz/test_costs.py::test_a_body_costs_the_loop_no_more_than_reading_it",
        "CPU of nested lists",
    ),
    Guard(
        "a schema that doubles",
        "fairlead_tools.validation.schema_compiler",
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
READERS = (
    Guard(
        "a denied tool, by a name in another case beside that of an allowed one",
        f"{GATEWAY}.endpoint.inbound",
        (("if misread_message:", "if False:"),),
        f"{AT}/test_parser_differences.py::test_a_member_beside_a_known_one_runs_nothing_else",
        "{'name': 'delete_all'",
    ),
    Guard(
        "an argument in another case than a policy's",
        "fairlead_tools.validation.constraint",
        (
            (
                "self.checker.find_error_or_excess(arguments) or self.spelling.errors(arguments, text, folded_text)",
                "self.checker.find_error_or_excess(arguments)",
            ),
        ),
        f"{AT}/test_parser_differences.py::test_arguments_in_another_spelling_cannot_pass_a_policy",
        "'limit': 9",
    ),
    Guard(
        "a completion of a prompt that is not shown, by a reference in another case",
        f"{GATEWAY}.calls.routes.targets",
        (('ambiguity_message = _REF_MEMBERS.explain_misread(ref, "params.ref")', "ambiguity_message = None"),),
        f"{AT}/test_parser_differences.py::test_prompts_resources_and_completions_are_what_was_decided_about",
        "KeyError: 'error'",
    ),
    Guard(
        "a result that was kept for other arguments, of which one comes twice",
        f"{GATEWAY}.calls.results.cache",
        (("return None if members.has_repeated_member(raw) else _encode(parsed)", "return _encode(parsed)"),),
        f"{AT}/test_parser_differences.py::test_a_result_is_not_kept_for_arguments_that_servers_read_otherwise",
        "[2] == [2, 2]",
    ),
    Guard(
        "a message to a stdio server on a line of the arguments",
        "fairlead_mcp.multiplex",
        (('if b"\\n" in message or b"\\r" in message:', "if False:"),),
        f"{AT}/test_child_servers.py::test_a_line_break_in_arguments_does_not_become_a_message_to_the_child",
        "told to die",
    ),
)
"""Requests that a server reads otherwise than the gateway did."""
EXTENSIONS = (
    Guard(
        "the page of another server at a URI that both have",
        "fairlead_mcp.uris",
        (("match = _PREFIXED_URI.fullmatch(uri) if self.prefix else None", "match = None"),),
        f"{AT}/test_apps.py::test_servers_that_share_a_uri_are_each_read_by_their_own_name",
        "assert",
    ),
    Guard(
        "the page of a tool that a policy denies",
        f"{GATEWAY}.policy.resource_index",
        (
            (
                'return uri in self.withheld_uris or (uris.scheme_of(uri) == "ui" and uri not in self._listed_uris)',
                "return False",
            ),
        ),
        f"{AT}/test_apps.py::test_the_interface_of_a_tool_that_is_denied_is_not_read",
        "KeyError",
    ),
    Guard(
        "a tool of a server without apps, called by the app of another",
        f"{GATEWAY}.policy.app_tools",
        (("route.server.key in servers_with_apps and ", ""),),
        f"{AT}/test_apps.py::test_an_app_reaches_neither_a_server_without_apps_nor_a_tool_that_is_denied",
        "KeyError",
    ),
    Guard(
        "a file of a skill whose bytes are others than those that were approved",
        "fairlead_mcp.skills",
        (("file.digest.lower() != digest", "False"),),
        f"{AT}/test_skills.py::test_bytes_that_change_under_a_pin_are_not_passed_on",
        "KeyError",
    ),
    Guard(
        "a skill that has a file of another server's",
        f"{GATEWAY}.catalog.model",
        (("if other_owner is None:", "if True:"),),
        f"{AT}/test_skills.py::test_a_skill_of_another_scheme_is_all_of_one_server",
        "repo://y/SKILL.md",
    ),
    Guard(
        "a skill that nobody approved",
        "fairlead_mcp.skills",
        (("if entry is None or skill != _decode(entry):", "if False:"),),
        f"{AT}/test_skills.py::test_bytes_that_change_under_a_pin_are_not_passed_on",
        "KeyError",
    ),
)
