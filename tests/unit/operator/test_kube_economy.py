"""Needless work that the operator avoids. With a thousand servers, it would be most of its work."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from fairlead_api.meta import ServerKey
from fairlead_kube.client import Kube
from fairlead_operator.kube.declared_resources import KubeDeclarations


def test_rules_are_compiled_again_for_labels_and_not_for_a_status() -> None:
    rules: list[None] = []
    unused = cast("Kube", None)
    declarations = KubeDeclarations(unused, server_changed=lambda key: None, rules_changed=lambda: rules.append(None))

    def feed_event(type_: str, version: int, **changes: Any) -> int:
        metadata = {"name": "demo", "namespace": "team", "uid": "1", "resourceVersion": str(version)}
        item = {
            "metadata": {**metadata, **changes.pop("metadata", {})},
            "spec": {"url": "http://a.example/"},
            **changes,
        }
        (declarations.servers.delete if type_ == "DELETED" else declarations.servers.update)(item)
        return len(rules)

    assert feed_event("ADDED", 1, metadata={"labels": {"team": "a"}}) == 1
    assert feed_event("MODIFIED", 2, metadata={"labels": {"team": "a"}}, status={"tools": 3}) == 1
    assert feed_event("MODIFIED", 3, metadata={"labels": {"team": "b"}}) == 2
    assert asyncio.run(declarations.labels()) == {ServerKey("team", "demo"): {"team": "b"}}
    assert feed_event("DELETED", 4) == 3
    assert asyncio.run(declarations.labels()) == {}
