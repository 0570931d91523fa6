"""Values that the operator reads at its start: the tiers to create, and its service account."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest

from fairlead_api.bad_setting import BadSetting
from fairlead_kube.client import Kube
from fairlead_kube.errors import Forbidden
from fairlead_kube.resources import Kind
from fairlead_operator.kube.owners import account_references, service_references
from fairlead_operator.publish.configured_tiers import read_tiers
from fairlead_operator.publish.default_tiers import DEFAULT_TIERS


def write_file(folder: Path, text: str) -> str:
    path = folder / "file"
    path.write_text(text)
    return str(path)


def token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def claims(namespace: str) -> dict[str, Any]:
    account = {"name": "fairlead-operator", "uid": "11aa"}
    return {"iss": "x", "kubernetes.io": {"namespace": namespace, "pod": {"name": "p"}, "serviceaccount": account}}


def test_without_a_file_the_default_tiers_are_created() -> None:
    assert read_tiers("") is DEFAULT_TIERS


def test_the_tiers_of_a_file_are_created(tmp_path: Path) -> None:
    path = write_file(tmp_path, "[{name: voice, spec: {maxLatency: 300ms, default: true}}, {name: rest, spec: {}}]")
    voice, rest = read_tiers(path)
    assert (voice.metadata.name, voice.spec.max_latency, voice.spec.default) == ("voice", "300ms", True)
    assert (rest.metadata.name, rest.spec.max_latency) == ("rest", None)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{name: voice}", "is not a list of tiers, each with `name` and `spec`"),
        ("[{name: voice}]", "is not a list of tiers"),
        ("[{name: voice, spec: {maxLatency: soon}}]", "spec.maxLatency"),
        ("[{name: voice, spec: {maxLatencyMs: 3}}]", "spec.maxLatencyMs"),
        ("[{name: voice, spec: {selection: {keyword: [hi]}}}]", "voice has unknown members: spec.selection.keyword"),
        ("[{name: voice, spec: 500ms}]", "spec: "),
        ("[{name: voice, spec: {3: x, maxLatencyMs: 4}}]", "voice has unknown members: spec.3, spec.maxLatencyMs"),
        ("[", "is not valid YAML"),
        ("[{name: voice, spec: {at: 2026-02-30}}]", "is not valid YAML: day is out of range"),
        ("[" * 2000, "is nested too deeply"),
    ],
)
def test_a_file_that_holds_no_tiers_is_named_with_its_fault(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadSetting, match=f"FAIRLEAD_TIERS: .*{sentence}"):
        read_tiers(write_file(tmp_path, text))


def test_a_file_of_tiers_that_is_not_utf_8_or_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("[{name: é, spec: {}}]".encode("latin-1"))
    for name in ("latin", "missing"):
        with pytest.raises(BadSetting, match=f"FAIRLEAD_TIERS: the list of tiers in .*{name} cannot be read: "):
            read_tiers(str(tmp_path / name))


def test_written_objects_belong_to_the_account_of_the_pod(tmp_path: Path) -> None:
    (owner,) = account_references(write_file(tmp_path, token(claims("release"))), "release")
    assert owner == {"apiVersion": "v1", "kind": "ServiceAccount", "name": "fairlead-operator", "uid": "11aa"}


@pytest.mark.parametrize("content", [token(claims("elsewhere")), token({"sub": "somebody"}), "no token", "a.!!.b", ""])
def test_without_an_account_of_that_namespace_it_belongs_to_nobody(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert account_references(write_file(tmp_path, content), "release") == []
    assert "will not delete" in caplog.text


class _Services:
    """An API server with one Service, or one that refuses to show it."""

    def __init__(self, uid: str) -> None:
        self._uid = uid

    async def metadata(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        if not self._uid:
            raise Forbidden(f"cannot get {kind.display_name(namespace, name)} (403)", status=403)
        return {"name": name, "namespace": namespace, "uid": self._uid}


async def test_written_objects_belong_to_a_service_of_the_release_too(caplog: pytest.LogCaptureFixture) -> None:
    kube = cast("Kube", _Services("22bb"))
    (owner,) = await service_references(kube, "release", "fairlead-operator")
    assert owner == {"apiVersion": "v1", "kind": "Service", "name": "fairlead-operator", "uid": "22bb"}
    assert await service_references(kube, "release", "") == []
    assert caplog.text == ""


async def test_a_service_that_may_not_be_read_owns_nothing_and_the_log_says_what_to_grant(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await service_references(cast("Kube", _Services("")), "release", "fairlead-operator") == []
    assert "grant the operator's account `get` on the Service" in caplog.text


def test_owners_without_an_account_are_empty_and_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert account_references("", "release") == []
    assert caplog.text == ""
