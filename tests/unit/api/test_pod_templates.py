"""Fields of `spec.podTemplate`: those that keep pods restricted may be set, every other one is refused by its path."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_api.podtemplates import refused, sentence
from podtemplates import ALLOWED, TEMPLATES


@pytest.mark.parametrize(("path", "template"), TEMPLATES)
def test_a_field_that_gives_pods_more_is_refused_by_its_path(path: str, template: dict[str, Any]) -> None:
    assert refused(template) == f"spec.podTemplate.{path}"


@pytest.mark.parametrize("template", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_keeps_a_pod_restricted_may_be_set(template: dict[str, Any]) -> None:
    assert refused(template) is None


def test_the_sentence_names_the_field_and_the_switch() -> None:
    assert sentence("spec.podTemplate.spec.hostPID") == (
        "this installation does not let a server set spec.podTemplate.spec.hostPID, or not to that value: leave it "
        "out, or have servers.podTemplates of the chart set to Any (FAIRLEAD_POD_TEMPLATES of the operator)"
    )
