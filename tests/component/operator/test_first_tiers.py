"""The tiers that the operator creates, none of which is the default tier, and tiers that older operators created."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.codec import RULES_NAME, decode
from fairlead_api.documents.rules import Rules
from fairlead_api.meta import ANNOTATION_SEEDING
from fairlead_kube.client import Kube
from fairlead_kube.errors import NotLeading
from fairlead_operator.kube.seeded_tiers import TierSeeder
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS
from operatorworld import GROUP, World, configuration_of, running
from rights import Accounts

TIERS = f"{GROUP}/latencytiers"
OLDER = "fieldManager=fairlead-operator"
MERGE = "application/merge-patch+json"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def alone(world: World) -> Iterator[World]:
    """A world without LatencyTiers. They are not namespaced, so another test may have left some."""
    world.request("DELETE", TIERS)
    yield world
    world.request("DELETE", TIERS)


def create_old_tier(world: World, name: str, *, manager: str = OLDER, spec: dict[str, Any] | None = None) -> None:
    """Create a tier with the request by which an older operator created its default tier `fast`."""
    body = {**DEFAULT_TIERS[0].to_wire(), "metadata": {"name": name}}
    body.pop("status", None)
    body["spec"] = {**body["spec"], "default": True, **(spec or {})}
    status, answer = world.request("POST", f"{TIERS}?{manager}", body)
    assert status == 201, answer


def edit(world: World, name: str, patch: dict[str, Any], manager: str = "fieldManager=kubectl-edit") -> None:
    status, answer = world.request("PATCH", f"{TIERS}/{name}?{manager}", patch, content_type=MERGE)
    assert status == 200, answer


def defaults(world: World) -> set[str]:
    """Names of the tiers that have `default: true`."""
    _, listing = world.request("GET", TIERS)
    return {item["metadata"]["name"] for item in listing["items"] if item["spec"].get("default")}


def read_rules(world: World) -> Rules | None:
    document = world.documents().get(RULES_NAME)
    rules = decode(document) if document is not None else None
    return rules if isinstance(rules, Rules) else None


def tiers_of(world: World) -> set[str]:
    """Names of the LatencyTiers."""
    return {item["metadata"]["name"] for item in world.request("GET", TIERS)[1]["items"]}


def marked_tiers(world: World) -> set[str]:
    """Names of the tiers with the annotation that other tiers are still to be created."""
    items = world.request("GET", TIERS)[1]["items"]
    return {item["metadata"]["name"] for item in items if ANNOTATION_SEEDING in item["metadata"].get("annotations", {})}


def in_force(world: World) -> set[str]:
    """Names of the tiers in the rules that gateways read."""
    rules = read_rules(world)
    return {tier.name for tier in rules.tiers} if rules is not None else set()


def with_default(world: World, name: str | None) -> Callable[[], bool]:
    """Predicate: whether the published rules have exactly this default tier."""

    def holds() -> bool:
        rules = read_rules(world)
        return rules is not None and {t.name for t in rules.tiers if t.default} == ({name} if name else set())

    return holds


async def test_tiers_that_the_operator_creates_have_no_default(alone: World) -> None:
    async with running(alone):
        await alone.until("rules without a default tier", with_default(alone, None))
        _, listing = alone.request("GET", TIERS)
    assert {item["metadata"]["name"] for item in listing["items"]} == {"fast", "standard", "deep"}
    assert defaults(alone) == set()


async def test_tiers_of_an_operator_that_ended_amid_creating_them_are_completed_and_deleted_ones_stay_away(
    alone: World,
) -> None:
    create_old_tier(alone, "fast", manager="fieldManager=fairlead-operator-seeds", spec={"default": False})
    edit(alone, "fast", {"metadata": {"annotations": {ANNOTATION_SEEDING: "true"}}}, "fieldManager=fairlead-operator")
    async with running(alone):
        await alone.until("all three", lambda: tiers_of(alone) == {"fast", "standard", "deep"})
        await alone.until("no mark", lambda: not marked_tiers(alone))
    assert alone.request("DELETE", f"{TIERS}/deep")[0] == 200
    async with running(alone):
        await alone.until("rules of two tiers", lambda: in_force(alone) == {"fast", "standard"})
    assert tiers_of(alone) == {"fast", "standard"}


async def test_an_operator_that_ends_after_its_first_tier_leaves_a_mark_for_the_next(alone: World) -> None:
    api = Kube.connect(await configuration_of(alone.plane)).api
    stopping = Kube(api, allowance=lambda: 0.0 if tiers_of(alone) else 5.0)
    try:
        with pytest.raises(NotLeading):
            await TierSeeder(stopping, DEFAULT_TIERS, optional=False).seed()
        (first,) = alone.request("GET", TIERS)[1]["items"]
        assert first["metadata"]["annotations"] == {ANNOTATION_SEEDING: "true"}
        assert await TierSeeder(Kube(api), DEFAULT_TIERS, optional=False).seed()
    finally:
        await stopping.aclose()
    assert tiers_of(alone) == {"fast", "standard", "deep"}
    assert marked_tiers(alone) == set()


async def test_a_default_of_an_older_operator_is_withdrawn_unless_somebody_edited_the_tier(alone: World) -> None:
    create_old_tier(alone, "fast")
    create_old_tier(alone, "edited")
    edit(alone, "edited", {"spec": {"maxLatency": "700ms"}})
    create_old_tier(alone, "declared", manager="fieldManager=kubectl-client-side-apply")
    create_old_tier(alone, "adopted")
    _, adopted = alone.request("GET", f"{TIERS}/adopted")
    head = {"apiVersion": adopted["apiVersion"], "kind": "LatencyTier", "metadata": {"name": "adopted"}}
    applied, answer = alone.request(
        "PATCH",
        f"{TIERS}/adopted?fieldManager=argocd&force=true",
        {**head, "spec": adopted["spec"]},
        content_type="application/apply-patch+yaml",
    )
    assert applied == 200, answer
    create_old_tier(alone, "labelled")
    edit(alone, "labelled", {"metadata": {"labels": {"team": "a"}}})
    edit(alone, "labelled/status", {"status": {"tools": 3}}, OLDER)
    async with running(alone):
        await alone.until("two of five withdrawn", lambda: len(defaults(alone)) == 3)
        assert defaults(alone) == {"edited", "declared", "adopted"}
        await alone.until("rules", lambda: read_rules(alone) is not None)
    _, fast = alone.request("GET", f"{TIERS}/fast")
    expected = {**DEFAULT_TIERS[0].to_wire()["spec"], "default": False}
    assert {**expected, **fast["spec"]} == fast["spec"], "nothing else of it has changed"

    edit(alone, "fast", {"spec": {"default": True}})
    create_old_tier(alone, "sentinel")
    async with running(alone):
        await alone.until("the sentinel withdrawn", lambda: "sentinel" not in defaults(alone))
    assert "fast" in defaults(alone), "who wants it back is not overruled by a restart"


async def test_a_tier_that_the_installation_names_as_default_in_its_file_keeps_it(alone: World, tmp_path: Path) -> None:
    file = tmp_path / "tiers.yaml"
    file.write_text(json.dumps([{"name": "voice", "spec": {"maxLatency": "300ms", "default": True}}]))
    async with running(alone, tiers=str(file)):
        await alone.until("rules with the default of the file", with_default(alone, "voice"))
    create_old_tier(alone, "other")
    async with running(alone):
        await alone.until("the older default withdrawn", lambda: "other" not in defaults(alone))
    assert defaults(alone) == {"voice"}, "created by this operator because somebody named it"


async def test_the_installation_may_name_its_default_tier_whatever_the_tiers_say(alone: World) -> None:
    async with running(alone, default_tier="standard"):
        await alone.until("the named one", with_default(alone, "standard"))
    async with running(alone, default_tier="none-such"):
        await alone.until("no default", with_default(alone, None))
    assert defaults(alone) == set()


async def test_without_the_right_to_patch_tiers_the_operator_works_and_says_what_to_do(
    alone: World, caplog: pytest.LogCaptureFixture
) -> None:
    create_old_tier(alone, "fast")
    accounts = Accounts.of(alone)
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    _, listing = alone.request("GET", roles)
    own = [each for each in listing["items"] if each["metadata"]["name"].startswith("fairlead-operator")]
    granting = [role for role in own if any(rule["resources"] == ["latencytiers"] for rule in role["rules"])]
    assert granting
    for role in granting:
        for rule in role["rules"]:
            if rule["resources"] == ["latencytiers"]:
                rule["verbs"].remove("patch")
        assert alone.request("PUT", f"{roles}/{role['metadata']['name']}", role)[0] == 200
    async with running(alone, kubeconfig=str(accounts.operator)):
        await alone.until("rules", with_default(alone, "fast"))
    assert "LatencyTier fast is the default because an older operator set it" in caplog.text
    assert "set spec.default of the tier to false" in caplog.text


async def test_tiers_that_may_not_be_read_are_logged_once(alone: World, caplog: pytest.LogCaptureFixture) -> None:
    nobody = alone.plane.kubeconfig_for("nobody", ["system:authenticated"])
    kube = Kube.connect(await configuration_of(alone.plane, str(nobody)))
    seeder = TierSeeder(kube, DEFAULT_TIERS, optional=True)
    try:
        assert [await seeder.seed() for _ in range(3)] == [False] * 3
    finally:
        await kube.aclose()
    assert caplog.text.count("may not read LatencyTiers") == 1


async def test_tiers_that_were_all_deleted_are_created_again_without_a_restart(alone: World) -> None:
    async with running(alone):
        await alone.until("all three", lambda: in_force(alone) == {"fast", "standard", "deep"})
        await alone.until("no mark", lambda: not marked_tiers(alone))
        assert alone.request("DELETE", f"{TIERS}/deep")[0] == 200
        await alone.until("rules of two tiers", lambda: in_force(alone) == {"fast", "standard"})
        assert alone.request("DELETE", TIERS)[0] == 200
        await alone.until("all three again", lambda: tiers_of(alone) == {"fast", "standard", "deep"})
        await alone.until("in force", lambda: in_force(alone) == {"fast", "standard", "deep"})
        assert defaults(alone) == set()


async def test_of_two_tiers_that_ask_to_be_the_default_kubectl_shows_which_is(alone: World) -> None:
    for name in ("elder", "younger"):
        head = {"apiVersion": "fairlead.dev/v1alpha1", "kind": "LatencyTier", "metadata": {"name": name}}
        assert alone.request("POST", TIERS, {**head, "spec": {"default": True}})[0] == 201

    def table() -> dict[str, list[str]]:
        rows = alone.plane.kubectl("get", "lt", "--no-headers").stdout.splitlines()
        return {row.split()[0]: row.split()[1:] for row in rows}

    def default_is_the_elder() -> bool:
        rows = table()
        return rows["elder"][1:2] == ["true"] and rows["younger"][1:2] == ["false"] and "True" in rows["younger"]

    async with running(alone):
        await alone.until("one default, and a conflict of the other", default_is_the_elder)
