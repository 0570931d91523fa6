"""`fairlead keys --secret` against a real API server: from a laptop, and in a pod as in the image."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from commands import fairlead
from controlplane import ControlPlane
from fairlead_gateway.identity.key_format import KeyDocument, read
from ports import free_port

SECRET = "fairlead-api-keys"
WRITTEN = f"fairlead keys create: the hash of the key is written to Secret {{}}/{SECRET}\n"
_IN_THE_IMAGE = """
import sys
class Left:  # gateway/Dockerfile takes the first two out, and installs no extra that has the others
    def find_spec(self, name, path=None, target=None):
        for gone in ("kubernetes.client.api", "kubernetes.aio.client.api", "mcp", "uv"):
            if name == gone or name.startswith(gone + "."):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Left())
"""


def in_a_pod(folder: Path) -> str:
    """Python code that makes `folder` the location of the ServiceAccount."""
    return _IN_THE_IMAGE + (
        "from kubernetes.aio.config import incluster_config as pod\n"
        f"pod.SERVICE_TOKEN_FILENAME, pod.SERVICE_CERT_FILENAME = {str(folder / 'token')!r}, {str(folder / 'ca.crt')!r}"
    )


async def stored_keys(plane: ControlPlane, namespace: str) -> tuple[dict[str, object], KeyDocument]:
    path = f"/api/v1/namespaces/{namespace}/secrets/{SECRET}"
    _, secret = await asyncio.to_thread(plane.request, "GET", path)
    return secret, read(base64.b64decode(secret["data"]["keys.json"]))


async def test_keys_are_applied_by_the_current_context_and_leave_what_others_own(
    control_plane: ControlPlane, namespace: str
) -> None:
    others = {"metadata": {"name": SECRET, "labels": {"team": "a"}}, "stringData": {"note": "ours"}}
    await asyncio.to_thread(control_plane.request, "POST", f"/api/v1/namespaces/{namespace}/secrets", others)
    here = {"KUBECONFIG": str(control_plane.kubeconfig), "FAIRLEAD_NAMESPACE": namespace}
    code, key, err = await fairlead("keys", "create", "npc", "--secret", SECRET, **here)
    assert (code, err) == (0, WRITTEN.format(namespace))
    secret, keys = await stored_keys(control_plane, namespace)
    metadata = secret["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["labels"] == {"team": "a", "fairlead.dev/api-keys": "true"}
    assert secret["data"] == secret["data"] | {"note": base64.b64encode(b"ours").decode()}  # type: ignore[operator]  # JSON
    assert ("fairlead-keys", "Apply") in {
        (manager["manager"], manager["operation"]) for manager in metadata["managedFields"]
    }
    assert [key.agent for key in keys.keys] == ["npc"]
    _, listed, _ = await fairlead("keys", "list", "--secret", SECRET, **here)
    assert keys.keys[0].id in listed
    assert (await fairlead("keys", "revoke", key.strip(), "--secret", SECRET, **here))[0] == 0
    assert (await stored_keys(control_plane, namespace))[1].keys == ()


async def test_keys_that_are_made_at_the_same_time_are_all_kept(control_plane: ControlPlane, namespace: str) -> None:
    here = {"KUBECONFIG": str(control_plane.kubeconfig), "FAIRLEAD_NAMESPACE": namespace}
    agents = ["a", "b", "c"]
    made = await asyncio.gather(*(fairlead("keys", "create", agent, "--secret", SECRET, **here) for agent in agents))
    assert [(code, err) for code, _, err in made] == [(0, WRITTEN.format(namespace))] * 3
    assert sorted(key.agent for key in (await stored_keys(control_plane, namespace))[1].keys) == agents


async def test_the_image_keeps_keys_as_the_service_account_of_its_pod(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    root = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    subject = {"kind": "ServiceAccount", "name": "issuer", "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "issuer"}
    await asyncio.to_thread(control_plane.request, "POST", root, {"metadata": {"name": "issuer"}})
    _, made = await asyncio.to_thread(control_plane.request, "POST", f"{root}/issuer/token", {"spec": {}})
    (tmp_path / "token").write_text(made["status"]["token"])
    (tmp_path / "ca.crt").write_bytes((control_plane.folder / "pki" / "ca.crt").read_bytes())
    host, _, port = control_plane.server.removeprefix("https://").partition(":")
    pod = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOME": str(tmp_path), "KUBECONFIG": ""}
    words = ("keys", "create", "npc", "--secret", SECRET, "--namespace", namespace)

    code, out, err = await fairlead(*words, code=in_a_pod(tmp_path), **pod)
    assert (code, out, "Traceback" in err) == (1, "", False)
    assert f"may get, create and patch secrets in namespace {namespace}" in err
    assert f"system:serviceaccount:{namespace}:issuer" in err

    for path, body in (
        ("roles", {"metadata": {"name": "issuer"}, "rules": [rule]}),
        ("rolebindings", {"metadata": {"name": "issuer"}, "subjects": [subject], "roleRef": role}),
    ):
        await asyncio.to_thread(control_plane.request, "POST", f"{rbac}/{path}", body)
    for agents in (["npc"], ["npc", "npc"]):
        code, out, err = await fairlead(*words, code=in_a_pod(tmp_path), **pod)
        assert (code, err) == (0, WRITTEN.format(namespace))
        assert out.startswith("flk_")
        assert [key.agent for key in (await stored_keys(control_plane, namespace))[1].keys] == agents


async def test_without_a_cluster_a_sentence_says_what_to_do(tmp_path: Path) -> None:
    bare = {"HOME": str(tmp_path), "KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": ""}
    code, out, err = await fairlead("keys", "create", "npc", "--secret", SECRET, **bare)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "set KUBECONFIG" in err
    away = tmp_path / "config"
    away.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{free_port()}'}}}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    code, out, err = await fairlead("keys", "list", "--secret", SECRET, "--kubeconfig", str(away))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "cannot be reached" in err
    code, _, err = await fairlead("keys", "list", "--secret", "Not_A_Name", **bare)
    assert (code, "is not a valid name" in err) == (2, True)
