"""Advice on a laptop names the fields of the file that its user wrote."""

from __future__ import annotations

import itertools
import re

import pytest

from fairlead_api.remedies import ON_A_CLUSTER, Form, in_words_of, remedy
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver.auth import Auth
from fairlead_api.v1alpha1.reasons import EXPLANATIONS

ON_A_LAPTOP = [cause for cause in Cause if cause not in ON_A_CLUSTER]
NO_WORDS_OF_AN_MCP_JSON = re.compile(
    r"\bspec\b|kubectl|\bpods?\b|replicas|McpServer|operator|Secret|(?<!fairlead\.)(?:hostHeader|caBundle|limits\.|calibration)"
)


def test_advice_on_a_server_of_an_mcp_json_names_keys_that_an_mcp_json_has() -> None:
    for cause in ON_A_LAPTOP:
        advice = remedy(cause, "client-configuration")
        assert not NO_WORDS_OF_AN_MCP_JSON.search(advice), cause
        assert bool(advice) == bool(EXPLANATIONS[cause].remedy), cause


def test_advice_on_the_proxy_of_litellm_names_no_field_of_a_file() -> None:
    for cause in ON_A_LAPTOP:
        for transport in ("", "streamable-http"):
            advice = remedy(cause, "litellm", transport)
            assert not NO_WORDS_OF_AN_MCP_JSON.search(advice), cause
            assert bool(advice) == bool(EXPLANATIONS[cause].remedy), cause
    for cause in (Cause.CONNECTION_REFUSED, Cause.UNKNOWN_HOST, Cause.NOT_FOUND, Cause.HTML_INSTEAD_OF_MCP):
        assert "--litellm" in remedy(cause, "litellm", "streamable-http")


def test_advice_on_a_laptop_speaks_of_no_cluster() -> None:
    for cause in ON_A_LAPTOP:
        assert not re.search(r"kubectl|\bpods?\b|replicas|operator", remedy(cause, "local")), cause


def test_advice_on_a_cluster_is_that_of_the_page_of_reasons_and_names_nothing_of_a_laptop() -> None:
    for cause in Cause:
        assert remedy(cause, "cluster") == EXPLANATIONS[cause].remedy
        assert not re.search(r"fairlead (logs|up)|FAIRLEAD_", remedy(cause, "cluster")), cause


@pytest.mark.parametrize("form", ["cluster", "local", "client-configuration"])
@pytest.mark.parametrize("cause", [Cause.NOT_MCP, Cause.TIMEOUT, Cause.BAD_JSON, Cause.MENDED_ANSWERS])
def test_advice_on_a_server_on_stdio_speaks_of_no_url(cause: Cause, form: Form) -> None:
    assert not re.search(r"\burl\b|\bpath\b|\btype\b|transport: sse", remedy(cause, form, "stdio"))


@pytest.mark.parametrize(("form", "older"), [("local", "transport: sse"), ("client-configuration", '"type": "sse"')])
def test_advice_on_a_server_at_a_url_speaks_of_its_transport_and_of_no_command(form: Form, older: str) -> None:
    for cause in (Cause.METHOD_NOT_ALLOWED, Cause.TIMEOUT):
        assert older in remedy(cause, form, "streamable-http")
        assert "command" not in remedy(cause, form, "streamable-http")
    assert "often /sse" in remedy(Cause.NOT_FOUND, form, "sse")
    for cause in (Cause.NOT_MCP, Cause.METHOD_NOT_ALLOWED, Cause.TIMEOUT):
        assert older not in remedy(cause, form, "sse")
        assert "command" not in remedy(cause, form, "sse")


@pytest.mark.parametrize(
    ("form", "newer"),
    [
        ("cluster", "spec.remote.transport"),
        ("local", "spec.remote.transport"),
        ("client-configuration", '"type": "http"'),
    ],
)
def test_advice_on_a_request_that_a_server_refuses_over_sse_names_the_other_transport(form: Form, newer: str) -> None:
    assert newer in remedy(Cause.RPC_ERROR, form, "sse")
    assert newer not in remedy(Cause.RPC_ERROR, form, "streamable-http")


@pytest.mark.parametrize("form", ["local", "client-configuration"])
def test_a_server_that_answers_with_an_error_is_advised_with_the_command_that_shows_its_log(form: Form) -> None:
    assert "fairlead logs SERVER" in remedy(Cause.RPC_ERROR, form, "stdio")


@pytest.mark.parametrize("form", ["local", "client-configuration"])
@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_advice_on_an_error_of_a_server_at_a_url_names_no_log_that_is_not_kept_here(form: Form, transport: str) -> None:
    assert "fairlead logs" not in remedy(Cause.SERVER_ERROR, form, transport)
    assert "fairlead logs" in remedy(Cause.SERVER_ERROR, form, "stdio")


def test_a_field_in_a_message_is_named_where_an_mcp_json_has_it() -> None:
    message = "1 tool says that calls may be repeated, which is ignored: to trust it, set spec.trustAnnotations: true"
    assert in_words_of(message, "client-configuration").endswith("set fairlead.trustAnnotations: true")
    assert in_words_of(message, "local") == message
    assert in_words_of("see aspec.tools and spec.other", "client-configuration") == "see aspec.tools and spec.other"


@pytest.mark.parametrize("form", ["cluster", "local", "client-configuration"])
def test_a_command_in_advice_names_the_server(form: Form) -> None:
    for cause, transport in itertools.product(Cause, ("", "stdio", "sse", "streamable-http")):
        plain = remedy(cause, form, transport)
        named = remedy(cause, form, transport, {"SERVER": "default/demo"})
        assert "SERVER" not in named
        assert named == plain.replace("SERVER", "default/demo")


@pytest.mark.parametrize("form", ["cluster", "local"])
def test_advice_on_signing_in_names_keys_and_the_field_of_each_kind_of_shared_credential(form: Form) -> None:
    advice = remedy(Cause.SIGN_IN_REQUIRED, form)
    assert "enter your key" in advice
    for field in ("bearer", "header"):
        assert f"spec.auth.{field}" in advice
        assert field in Auth.model_fields
    assert "userKey with a header, firstGrant" in remedy(Cause.LISTS_NEED_CREDENTIAL, form)
