"""Advice on a laptop is in the words of the file that its user wrote."""

from __future__ import annotations

import re

import pytest

from fairlead_api.v1alpha1.conditions import Reason
from fairlead_api.v1alpha1.reasons import EXPLANATIONS
from fairlead_api.v1alpha1.remedies import ON_A_CLUSTER, in_words_of, remedy

NO_WORDS_OF_AN_MCP_JSON = re.compile(
    r"\bspec\b|kubectl|\bpods?\b|replicas|McpServer|operator|Secret|(?<!fairlead\.)(?:hostHeader|caBundle|limits\.|calibration)"
)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in ON_A_CLUSTER])
def test_advice_on_a_server_of_an_mcp_json_names_keys_that_an_mcp_json_has(reason: Reason) -> None:
    advice = remedy(reason, "client-configuration")
    assert not NO_WORDS_OF_AN_MCP_JSON.search(advice)
    assert bool(advice) == bool(EXPLANATIONS[reason].remedy)


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in ON_A_CLUSTER])
def test_advice_on_a_laptop_speaks_of_no_cluster(reason: Reason) -> None:
    assert not re.search(r"kubectl|\bpods?\b|replicas|operator", remedy(reason, "local"))


@pytest.mark.parametrize("reason", Reason)
def test_advice_on_a_cluster_is_that_of_the_page_of_reasons(reason: Reason) -> None:
    assert remedy(reason, "cluster") == EXPLANATIONS[reason].remedy


def test_a_field_in_a_message_is_named_where_an_mcp_json_has_it() -> None:
    message = "1 tool says that calls may be repeated: to believe it, set spec.trustAnnotations: true"
    assert in_words_of(message, "client-configuration").endswith("set fairlead.trustAnnotations: true")
    assert in_words_of(message, "local") == message
    assert in_words_of("see aspec.tools and spec.other", "client-configuration") == "see aspec.tools and spec.other"
