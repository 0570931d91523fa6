"""Owners that are added to objects of an earlier release, so that these outlive a change of the account."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from fairlead_kube.client import Kube
from fairlead_kube.errors import Conflict, Forbidden, NotFound
from fairlead_kube.resources import CONFIG_MAPS, SECRETS, Kind, Scope
from fairlead_operator.kube.owners import ADOPTION_PASSES, adopt

Json = dict[str, Any]
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "operator", "uid": "a"}
SERVICE = {"apiVersion": "v1", "kind": "Service", "name": "operator", "uid": "s"}
SCOPES = [Scope(CONFIG_MAPS, Json, "release"), Scope(SECRETS, Json, "release")]


class _Owned:
    """An API server with ConfigMaps and Secrets, by name. `refuses`: the errors of the next writes of an object."""

    def __init__(self, *names: str, refuses: dict[str, list[Exception]] | None = None) -> None:
        self.owners: dict[str, list[Json]] = {name: [ACCOUNT] for name in names}
        self.lists = 0
        self._refuses = refuses or {}

    async def list_metadata(self, scope: Scope[Json]) -> AsyncIterator[Json]:
        self.lists += 1
        for name in [name for name in self.owners if name.startswith(scope.kind.plural)]:
            yield {"name": name, "resourceVersion": "1", "ownerReferences": self.owners[name]}

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Json) -> Json:
        if errors := self._refuses.get(name):
            raise errors.pop()
        assert patch["metadata"]["resourceVersion"] == "1"
        self.owners[name] = patch["metadata"]["ownerReferences"]
        return {"metadata": {"name": name}}


def owned(*names: str, **how: Any) -> tuple[_Owned, Kube]:
    server = _Owned(*names, **how)
    return server, cast("Kube", server)


async def test_objects_of_an_earlier_release_get_the_owners_that_they_lack_in_one_pass() -> None:
    server, kube = owned("configmaps-a", "configmaps-b", "secrets-a")
    await adopt(kube, "release", SCOPES, [ACCOUNT, SERVICE])
    assert [*server.owners.values()] == [[ACCOUNT, SERVICE]] * 3
    assert server.lists == len(SCOPES)
    await adopt(kube, "release", SCOPES, [ACCOUNT, SERVICE])
    assert [*server.owners.values()] == [[ACCOUNT, SERVICE]] * 3


async def test_an_object_that_changes_meanwhile_gets_its_owners_in_another_pass_and_a_deleted_one_in_none() -> None:
    refusals: dict[str, list[Exception]] = {"configmaps-a": [Conflict("changed")], "configmaps-b": [NotFound("gone")]}
    server, kube = owned("configmaps-a", "configmaps-b", refuses=refusals)
    await adopt(kube, "release", SCOPES[:1], [SERVICE])
    assert server.owners["configmaps-a"] == [ACCOUNT, SERVICE]
    assert server.lists == 2
    server, kube = owned("configmaps-a", refuses={"configmaps-a": [Conflict("changed")] * 99})
    await adopt(kube, "release", SCOPES[:1], [SERVICE])
    assert server.lists == ADOPTION_PASSES


async def test_an_operator_that_may_not_set_owners_works_on_and_its_log_says_what_to_grant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusal = Forbidden("cannot set an ownerRef on a resource you can't delete (403)", status=403)
    server, kube = owned("secrets-a", "secrets-b", refuses={"secrets-a": [refusal]})
    await adopt(kube, "release", SCOPES, [SERVICE])
    assert server.owners["secrets-b"] == [ACCOUNT]
    assert "grant the operator's account" in caplog.text
    assert "operator.serviceAccount" in caplog.text


async def test_without_owners_nothing_is_listed() -> None:
    server, kube = owned("secrets-a")
    await adopt(kube, "release", SCOPES, [])
    assert server.lists == 0
