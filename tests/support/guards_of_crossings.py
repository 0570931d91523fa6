"""Guards that are the only protection of a boundary, each tested with hundreds of attempts: see `guards`."""

from __future__ import annotations

from product_guard import GATEWAY, Guard

_TEST = "tests/fuzz/test_crossings.py"
_CHART = "charts/fairlead/templates/operator"
_ADMISSION = "tests/chart/test_admission.py::test_no_version_update_subresource_null_or_repeated_member_brings"
CROSSINGS = (
    Guard(
        "an address of another site, however it is written, that signing in leads to",
        "fairlead_console.sign_in_form",
        (("return parts.path if is_own and is_plain", "return location if True or is_plain"),),
        f"{_TEST}::test_signing_in_leads_to_no_other_site_however_it_is_written",
        "evil.example",
    ),
    Guard(
        "a form of another site that signs somebody in, or acts for them",
        "fairlead_web.guard",
        (("if not is_own_origin and not self.allow.allows_origin(origin):", "if False:"),),
        f"{_TEST}::test_no_form_of_another_site_signs_somebody_in_or_acts_for_them",
        "https://evil.example",
    ),
    Guard(
        "a cookie that was sealed for another purpose",
        "fairlead_gateway.identity.sealed_values",
        (
            ("msgspec.json.encode(content), purpose.encode())", "msgspec.json.encode(content), b'')"),
            ("data[_NONCE_BYTES:], purpose.encode())", "data[_NONCE_BYTES:], b'')"),
        ),
        f"{_TEST}::test_no_altered_or_swapped_cookie_is_a_session",
        "assert [",
    ),
    Guard(
        "an altered or swapped id of a task",
        f"{GATEWAY}.calls.sealed.seals",
        (("match is None or not self.verifies(match[1], owner, match[2])", "match is None"),),
        f"{_TEST}::test_no_altered_replayed_or_swapped_id_of_a_task_opens_it",
        "fairlead-task.",
    ),
    Guard(
        "a kept result of another principal, by its session and its id",
        f"{GATEWAY}.calls.results.context_recorder",
        (
            (
                'return f"{identity.kind} {identity.principal}" if identity.owner else f"anonymous {session}"',
                'return "everybody"',
            ),
        ),
        f"{_TEST}::test_a_kept_result_cannot_be_read_by_another_principal",
        "secret",
    ),
    Guard(
        "a text of a server that is markup in the console",
        "fairlead_console.html",
        (("autoescape=True", "autoescape=False"),),
        f"{_TEST}::test_no_text_of_a_server_is_markup_in_the_console",
        "script",
    ),
    Guard(
        "a folder that becomes a link while file-io is on its way",
        "fairlead_servers.file_io.jail",
        (
            (
                "_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
                "_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
            ),
        ),
        f"{_TEST}::test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere",
        "b'secret'",
    ),
    Guard(
        "a name that is another address each time it is asked for",
        "fairlead_mcp.egress",
        (("            return allowed_addresses\n", "            return await resolve(host, port)\n"),),
        f"{_TEST}::test_a_name_that_is_another_address_each_time_is_connected_to_where_it_was_looked_at",
        "169.254",
    ),
    Guard(
        "a pod that is more than a server, in a member of its template that nobody listed",
        "fairlead_api.v1alpha1.mcpserver.podtemplate",
        (
            (
                "class PodTemplateOverlay(Model):\n",
                'class PodTemplateOverlay(Model, extra="allow"):\n',
            ),
            ("    spec: PodOverlaySpec | None = None\n", "    spec: dict[str, Any] | None = None\n"),
        ),
        f"{_TEST}::test_no_template_of_pods_gives_them_more_in_any_spelling_or_beside_what_is_allowed",
        "privileged",
    ),
    Guard(
        "the page of a denied tool, by white space in front of its URI or in its scheme",
        "fairlead_mcp.uris",
        (('(scheme if scheme.isalnum() else _NO_SCHEME.sub("", scheme)).lower()', "scheme.lower()"),),
        f"{_TEST}::test_no_id_of_an_apps_page_leads_to_it_whom_its_tools_are_denied",
        "' ui://share",
    ),
    Guard(
        "an unrestricted template, by a change of a server that had another one",
        f"{_CHART}/admission.yaml",
        (
            (
                "oldObject.spec.unrestrictedPodTemplate != object.spec.unrestrictedPodTemplate",
                "false",
            ),
        ),
        f"{_ADMISSION}_an_unrestricted_template",
        "unrestrictedPodTemplate",
    ),
    Guard(
        "an approval in the name of another, by a change",
        f"{_CHART}/admission.yaml",
        (
            (
                "!has(oldObject.spec.approval) || oldObject.spec.approval != object.spec.approval)",
                "false)",
            ),
        ),
        f"{_ADMISSION}_an_approval_in_the_name_of_another",
        "somebody-else",
    ),
    Guard(
        "a pod that is more than a server, by a change of an object from before its rules",
        "fairlead_api.v1alpha1.mcpserver.podcontainers",
        (("    privileged: Literal[False] | None = None", "    privileged: bool | None = None"),),
        "tests/component/operator/test_ratcheting.py::"
        "test_no_change_of_an_object_from_before_a_rule_adds_what_is_forbidden",
        "privileged",
    ),
    Guard(
        "a Secret without the label or of another namespace, by any reference",
        "fairlead_operator.kube.credentials",
        (
            (
                "            return await self._check_unlisted(server.metadata.namespace, name)\n",
                "            return None\n",
            ),
        ),
        "tests/component/operator/test_foreign_secrets.py::"
        "test_no_reference_leads_to_a_secret_without_the_label_or_of_another_namespace",
        "unlabelled",
    ),
)
