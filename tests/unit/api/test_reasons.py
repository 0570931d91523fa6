"""Every reason is explained, and the wire's reasons are among them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_api.v1alpha1.conditions import READY_DEPENDS_ON, ConditionType, Reason
from fairlead_api.v1alpha1.reasons import BELONGS_TO, EXPLANATIONS
from fairlead_mcp import errors

PAGE = Path(__file__).parents[3] / "crds" / "REASONS.md"
IN_PART = {
    Reason.VERIFIED_IN_PART, Reason.DUPLICATE_NAMES, Reason.INVALID_NAMES, Reason.UNUSUAL_NAMES,
    Reason.INVALID_SCHEMAS, Reason.INVALID_DEFINITIONS, Reason.DEFINITIONS_TOO_LARGE, Reason.LISTING_INCOMPLETE,
}  # fmt: skip
"""Reasons of a server that is usable and has something to mend."""


def test_every_reason_is_explained() -> None:
    assert set(EXPLANATIONS) == set(Reason)


def test_every_reason_belongs_to_a_condition() -> None:
    assert {reason for reasons in BELONGS_TO.values() for reason in reasons} == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_that_is_not_good_says_what_to_do(reason: Reason) -> None:
    explanation = EXPLANATIONS[reason]

    assert explanation.meaning.endswith(".")
    all_is_well = explanation.status == "True" and reason not in IN_PART
    assert bool(explanation.remedy) is not all_is_well
    assert not explanation.remedy or explanation.remedy.endswith((".", "=true"))


def test_the_page_has_every_reason_and_no_other_each_with_its_advice() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {row[0] for row in rows} == {str(reason) for reason in Reason}
    for name, status, meaning, remedy in rows:
        assert (status, meaning, remedy) == EXPLANATIONS[Reason(name)]


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_has_the_form_that_kubernetes_demands(reason: Reason) -> None:
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", reason)


def test_each_condition_that_ready_rests_on_has_a_reason_to_be_true() -> None:
    for condition in READY_DEPENDS_ON:
        good = [reason for reason in BELONGS_TO[condition] if EXPLANATIONS[reason].status == "True"]
        assert [reason for reason in good if reason not in IN_PART] == [Reason(condition.value)]
    assert ConditionType.READY not in BELONGS_TO


def test_every_reason_of_the_wire_may_stand_in_verified() -> None:
    def tree(kind: type[errors.McpError]) -> Iterator[type[errors.McpError]]:
        yield kind
        for child in kind.__subclasses__():
            if child.__module__.startswith("fairlead_mcp."):  # the gateway adds kinds of its own
                yield from tree(child)

    sources = Path(errors.__file__).parent.rglob("*.py")
    listed = {word for path in sources for word in re.findall(r'\breason ?= ?"([A-Z]\w+)"', path.read_text("utf-8"))}
    for kind in tree(errors.McpError):
        words = re.search(r"Reasons: (.*?)\.(\s|$)", " ".join((kind.__doc__ or "").split()))
        listed |= set(re.findall(r"\b[A-Z][A-Za-z]+", re.sub(r"\([^)]*\)", "", words[1]))) if words else set()
        listed.add(kind.reason)
    listed |= set(errors.REFUSALS.values()) | {"Redirected", "ServerError"}
    listed.remove(errors.HeldUp.reason)  # of a gateway whose clients do not read: discovery reads what it asks for

    assert listed - set(BELONGS_TO[ConditionType.VERIFIED]) == set()
