"""The page about two releases, with the real helm and a real API server: its commands in order, while the operator of
each release runs in this process with the rights of its account.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shlex
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from controlplane import REPOSITORY, ControlPlane, PlaneFactory
from helmworld import CHART, NAMESPACE, Helm, Refused, environment, get, objects
from operatorworld import World, running
from page_reader import blocks
from toolservers import sdk_server
from waiting import until

pytestmark = pytest.mark.timeout(300)

PAGE = (REPOSITORY / "docs" / "install" / "two-releases.md").read_text()
GREEN = "green"


def commands() -> list[list[str]]:
    """The command lines of the page."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
    return [shlex.split(line) for line in lines]


def account(plane: ControlPlane, namespace: str, name: str) -> str:
    """A kubeconfig with the rights of a ServiceAccount."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    return str(plane.kubeconfig_for(f"system:serviceaccount:{namespace}:{name}", groups))


def of_chart(plane: ControlPlane, helm: Helm, release: str, namespace: str) -> dict[str, Any]:
    """Settings of a release's operator, with its Lease's name and the rights of its account."""
    rendered = objects(helm("template", release, CHART, "--namespace", namespace))
    name = release if "fairlead" in release else f"{release}-fairlead"
    lease = environment(rendered, "operator", name)["FAIRLEAD_LEASE_NAME"]
    assert lease == f"{name}-operator"
    return {"kubeconfig": account(plane, namespace, lease), "lease_name": lease, "identity": f"pod-of-{release}"}


async def test_the_page_changes_over_from_one_release_to_another_and_back(
    private_plane: PlaneFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = private_plane(controllers=True, crds=False)
    helm = Helm(tmp_path, plane)
    monkeypatch.chdir(REPOSITORY)
    definitions, install, logs, scale, rollout, uninstall, adopt, delete = commands()
    assert [line[1] for line in (logs, rollout)] == ["logs", "rollout"]  # about pods, which do not run here

    helm.install()
    plane.await_definitions()
    blue = World(plane, plane.create_namespace("tools"), NAMESPACE)
    async with sdk_server() as url, AsyncExitStack() as first, AsyncExitStack() as second:
        leader = await first.enter_async_context(running(blue, **of_chart(plane, helm, "fairlead", NAMESPACE)))
        blue.create("remote", {"url": url})
        await blue.until("Ready", lambda: blue.is_("remote", "Ready", "True"), seconds=40)

        plane.kubectl(*definitions[1:])
        helm(*install[1:])
        green = dataclasses.replace(blue, release=GREEN)
        settings = of_chart(plane, helm, GREEN, GREEN)
        waiting = await second.enter_async_context(running(green, **settings))
        await green.until("it waits", lambda: waiting.watched_lease.waiting)
        message = re.search(r"`(the operator fairlead-operator in.*?)\(replica …\) (leads.*?)`", PAGE, re.DOTALL)
        assert message is not None
        for words in message.groups():
            assert " ".join(words.split()) in waiting.watched_lease.explanation
        assert waiting.controller is None
        assert leader.controller is not None

        plane.kubectl(*scale[1:])
        await first.aclose()  # in place of the kubelet
        await green.until("a catalog of the second", lambda: green.catalog("remote"), seconds=40)

        async with running(blue, **of_chart(plane, helm, "fairlead", NAMESPACE)) as back:
            await blue.until("the first waits now", lambda: back.watched_lease.waiting)
            await second.aclose()
            await blue.until("back", lambda: back.controller is not None, seconds=40)

        helm(*uninstall[1:])
        with pytest.raises(Refused, match=r"invalid ownership metadata|cannot be imported"):
            helm(*[word for word in adopt[1:] if word != "--take-ownership"])
        helm(*adopt[1:])
        assert {item["metadata"]["annotations"]["meta.helm.sh/release-name"] for item in get(plane, "crds")} == {GREEN}
        async with running(green, **settings) as heir:
            await green.until("leading", lambda: heir.controller is not None)
            blue.create("later", {"url": url})
            await green.until("Ready", lambda: green.is_("later", "Ready", "True"), seconds=40)
        assert {item["metadata"]["name"] for item in get(plane, "mcps", "-n", "tools")} == {"remote", "later"}
    await asyncio.to_thread(plane.kubectl, *delete[1:])
    until("no Lease", lambda: get(plane, "leases", "-n", "default") == [], seconds=10)
