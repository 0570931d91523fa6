"""Packages on a real cluster: installed and served in a pod, and messages about failures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from cluster_questions import condition, mcp_server, mirror, ready
from installation import kubectl, node_address, own_address
from npmmirror import npm_mirror
from shownconditions import cause
from waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400, func_only=True)]

VERSION = "2026.10.19"


def package(name: str, version: str = VERSION, **env: str) -> str:
    """The manifest of a PyPI server, with variables for its installer."""
    spec: dict[str, Any] = {"registry": "pypi", "name": "mcp-server-time", "version": version}
    spec["args"] = ["--local-timezone", "UTC"]
    return mcp_server(name, package=spec, env=[{"name": key, "value": value} for key, value in env.items()])


async def test_a_package_is_installed_from_a_mirror_and_answers(
    runner_image: str, gateway: str, namespace: str, tmp_path: Path
) -> None:
    name = f"pack-{namespace[-8:]}"
    with mirror(tmp_path, f"mcp-server-time=={VERSION}") as url:
        kubectl("apply", "-n", namespace, "-f", "-", stdin=package(name, UV_DEFAULT_INDEX=url))
        until("Ready", lambda: ready(namespace, name) == "True", seconds=120)
    async with Client(f"{gateway}/mcp") as client:
        result = await client.call_tool(f"{name}__get_current_time", {"timezone": "UTC"})
        assert not result.is_error, result


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed: nothing says which registry to mirror")
async def test_a_package_of_npm_is_installed_from_a_mirror_and_answers(
    runner_image: str, gateway: str, namespace: str
) -> None:
    name = f"node-{namespace[-8:]}"
    spec = {"registry": "npm", "name": "@modelcontextprotocol/server-everything", "version": "2026.8.31"}
    with npm_mirror(own_address(node_address())) as url:
        manifest = mcp_server(name, package=spec, env=[{"name": "npm_config_registry", "value": url}])
        kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
        until("Ready", lambda: ready(namespace, name) == "True", seconds=240)
    async with Client(f"{gateway}/mcp") as client:
        result = await client.call_tool(f"{name}__echo", {"message": "ahoy"})
        assert not result.is_error, result
        assert "ahoy" in str(result.content)


def test_a_registry_that_cannot_be_reached_has_a_reason_of_its_own(
    runner_image: str, gateway: str, namespace: str
) -> None:
    name = f"away-{namespace[-8:]}"
    nowhere = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    kubectl("apply", "-n", namespace, "-f", "-", stdin=package(name, **nowhere))
    reason = "RegistryUnreachable"
    until("the reason", lambda: cause(condition(namespace, name, "Ready")) == reason, seconds=90)
    programmed = condition(namespace, name, "Programmed")
    assert programmed["status"] == "False"
    assert "which cannot be reached" in programmed["message"]


def test_a_version_that_does_not_exist_is_named(
    runner_image: str, gateway: str, namespace: str, tmp_path: Path
) -> None:
    name = f"none-{namespace[-8:]}"
    with mirror(tmp_path, "idna") as url:
        manifest = package(name, "0.0.1", UV_DEFAULT_INDEX=url)
        kubectl("apply", "-n", namespace, "-f", "-", stdin=manifest)
        until("the reason", lambda: cause(condition(namespace, name, "Ready")) == "InstallFailed", seconds=90)
    assert "mcp-server-time==0.0.1" in condition(namespace, name, "Programmed")["message"]
