"""Certificates and kubeconfigs for one throwaway control plane, made with the `openssl` program.

The keys are of an elliptic curve: RSA keys would take seconds for each control plane, and each test file has one.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path


def _openssl(*args: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, args)], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError(f"openssl {args[0]}: {done.stderr.strip()}")


class Pki:
    """One certificate authority in `folder`: the API server's certificate, and a client's for every user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.crt"
        self._ca_key = self._key("ca")
        _openssl(
            "req", "-x509", "-new", "-key", self._ca_key, "-days", "2", "-subj", "/CN=fairlead-test", "-out", self.ca
        )
        names = "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default.svc"
        self.server_crt, self.server_key = self._issue("apiserver", "/CN=kube-apiserver", names)
        self.service_account_key = self._key("service-account")

    def _key(self, name: str) -> Path:
        key = self.folder / f"{name}.key"
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        return key

    def _issue(self, name: str, subject: str, alternative_names: str = "") -> tuple[Path, Path]:
        key = self._key(name)
        csr = self.folder / f"{name}.csr"
        crt = self.folder / f"{name}.crt"
        extensions = self.folder / f"{name}.ext"
        san = f"subjectAltName={alternative_names}\n" if alternative_names else ""
        extensions.write_text(f"extendedKeyUsage=serverAuth,clientAuth\n{san}")
        _openssl("req", "-new", "-key", key, "-subj", subject, "-out", csr)
        _openssl(
            "x509",
            "-req",
            "-in",
            csr,
            "-CA",
            self.ca,
            "-CAkey",
            self._ca_key,
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            extensions,
            "-out",
            crt,
        )
        return crt, key

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key with which the API server authenticates a client as `user`, a member of `groups`."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        name = user.replace(":", "_").replace("/", "_")
        return self._issue(f"user-{name}", subject)

    def kubeconfig(self, user: str, groups: Sequence[str], server: str) -> str:
        """A kubeconfig (JSON, which is YAML) with embedded certificates, so that the file can be moved."""

        def embed(path: Path) -> str:
            return base64.b64encode(path.read_bytes()).decode()

        crt, key = self.client(user, groups)
        cluster = {"server": server, "certificate-authority-data": embed(self.ca)}
        bearer = {"client-certificate-data": embed(crt), "client-key-data": embed(key)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": bearer}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": "default"}}],
            "current-context": "test",
        }
        return json.dumps(document, indent=1)
