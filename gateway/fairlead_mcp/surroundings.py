"""Environment variables that child processes inherit from Fairlead, whose environment may have secrets. No I/O.

This file imports the standard library only, because the runner image has a copy of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Variables that every child inherits. A child's spec has to name all others, as their values may be secrets."""
NETWORK: Final = frozenset(
    {
        "all_proxy",
        "curl_ca_bundle",
        "git_ssl_cainfo",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "node_extra_ca_certs",
        "node_use_env_proxy",
        "node_use_system_ca",
        "requests_ca_bundle",
        "ssl_cert_dir",
        "ssl_cert_file",
    }
)
"""Variables, in lower case, for access to the network, without which many servers start but then fail."""
_NPM: Final = ("npm_config_",)
_DOCKER: Final = ("docker_", "xdg_runtime_dir")
SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "bun": (*_NPM, "bun_"),
    "bunx": (*_NPM, "bun_"),
    "deno": ("deno_",),
    "docker": _DOCKER,
    "fairlead": ("otel_",),
    "npm": _NPM,
    "npx": _NPM,
    "pip": ("pip_",),
    "pipx": ("pip_", "pipx_"),
    "pnpm": (*_NPM, "pnpm_"),
    "podman": (*_DOCKER, "container_"),
    "uv": ("uv_",),
    "uvx": ("uv_",),
}
"""Prefixes, in lower case, of variables that are settings of a program, by program."""
POINTERS: Final = (
    "AWS_CONFIG_FILE",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CONFIG_DIR",
    "CLOUDSDK_ACTIVE_CONFIG_NAME",
    "CLOUDSDK_CONFIG",
    "CLOUDSDK_CORE_PROJECT",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT",
    "HELM_KUBECONTEXT",
    "KUBECONFIG",
    "PGHOST",
    "PGSERVICE",
    "TALOSCONFIG",
    "VAULT_ADDR",
)
"""Variables that select a tool's account, cluster or database; without them the tool uses another account, cluster or
database.
"""


def inherited_variables(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in `environ` that a server's process gets in addition to `INHERITED`: those for access to
    the network and the settings of `program` (a name or a path).
    """
    settings = SETTINGS.get(PurePath(program).name, ())
    return {
        name: value
        for name, value in environ.items()
        if (lower := name.lower()) in NETWORK or lower.startswith(settings)
    }
