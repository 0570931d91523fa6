"""Every reason and every cause has an explanation, also the reasons that come over the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import fairlead_api
from fairlead_api.v1alpha1.causes import CAUSES, REASON_OF, Cause, cause_of, sentence
from fairlead_api.v1alpha1.common import Condition
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ACTIONS, READY_DEPENDS_ON, ConditionType, Reason
from fairlead_api.v1alpha1.reasons import BELONGS_TO, EXPLANATIONS
from fairlead_mcp import errors

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "reasons.md"
NOW = datetime(2026, 11, 23, tzinfo=UTC)


def test_reasons_are_few_each_with_its_action_and_its_causes() -> None:
    assert len(Reason) <= 25
    assert set(ACTIONS) == set(Reason) == set(CAUSES)
    assert len(set(ACTIONS.values())) == len(Reason), "a person would act on each differently"


def test_every_cause_is_explained_and_has_one_reason_and_a_condition() -> None:
    assert set(EXPLANATIONS) == set(Cause)
    assert sorted(cause for causes in CAUSES.values() for cause in causes) == sorted(Cause)
    assert {cause for causes in BELONGS_TO.values() for cause in causes} == set(Cause)


def test_the_reason_conflicted_and_the_condition_conflicted_have_the_same_causes() -> None:
    """Both are columns of `kubectl get`: `Conflicted` beside an empty column would be two meanings of a word."""
    assert set(CAUSES[Reason.CONFLICTED]) == set(BELONGS_TO[ConditionType.CONFLICTED])


def test_a_cause_that_is_not_good_says_what_to_do() -> None:
    for cause in Cause:
        explanation = EXPLANATIONS[cause]
        assert explanation.meaning.endswith("."), cause
        all_is_well = REASON_OF[cause] is Reason.AS_EXPECTED
        assert bool(explanation.remedy) is not all_is_well, cause
        assert not explanation.remedy or explanation.remedy.endswith((".", "=true", "--tail=-1")), cause


def test_unknown_is_for_what_is_on_its_way_and_for_nothing_else() -> None:
    unknown = {cause for cause in Cause if EXPLANATIONS[cause].status == "Unknown"}
    assert {REASON_OF[cause] for cause in unknown} == {Reason.PENDING}
    abnormal = {cause for kind in ABNORMAL for cause in BELONGS_TO[kind]}
    assert {EXPLANATIONS[cause].status for cause in abnormal} == {"True"}


def test_a_message_carries_its_cause_and_gives_it_back() -> None:
    for cause in Cause:
        kind = next(kind for kind, causes in BELONGS_TO.items() if cause in causes)
        status = EXPLANATIONS[cause].status
        reason = REASON_OF[cause]
        message = sentence(cause, "it: was seen")
        condition = Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=NOW)
        assert cause_of(condition) == (cause, "it: was seen")


def test_the_page_has_every_reason_and_every_cause_each_with_its_advice() -> None:
    page = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (True|False|Unknown) \| (.+) \| (.*) \|$", page, re.MULTILINE)
    assert {row[0] for row in rows} == {str(cause) for cause in Cause}
    for name, reason, *rest in rows:
        assert (reason, tuple(rest)) == (REASON_OF[Cause(name)], EXPLANATIONS[Cause(name)])
    assert re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE) == [*ACTIONS.items()]


def test_a_word_has_the_form_that_kubernetes_demands() -> None:
    for word in (*Reason, *Cause):
        assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", word), word


def test_each_condition_that_ready_rests_on_has_a_reason_to_be_true() -> None:
    for condition in READY_DEPENDS_ON:
        good = [cause for cause in BELONGS_TO[condition] if REASON_OF[cause] is Reason.AS_EXPECTED]
        assert good == [Cause(condition.value)]
    assert ConditionType.READY not in BELONGS_TO


def test_the_page_names_the_modules_that_it_is_generated_from() -> None:
    (folder, names) = re.findall(r"from `fairlead_api/(\w+)/\{([\w,*]+)\}\.py`", PAGE.read_text("utf-8"))[0]
    for name in names.split(","):
        assert [*(Path(fairlead_api.__path__[0]) / folder).glob(f"{name}.py")], name


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
    listed.remove(errors.ArgumentsRefused.reason)  # of calls: discovery sends none

    assert listed - set(BELONGS_TO[ConditionType.VERIFIED]) == set()
