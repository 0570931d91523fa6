"""Environment variables that programs started by Fairlead get of its own environment, which may hold secrets. Pure;
standard library alone, for the runner image has a copy of this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""The variables that every child gets; anything else of ours may be a secret and must be named in its spec."""
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
"""How a program on this machine reaches the network, in lower case: without these, many a server starts and then
fails.
"""
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
"""Programs that fetch a server as they start it, or are told where to export traces, and how the names of their own
settings begin, in lower case.
"""
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
"""Variables that choose the account, cluster or database of a tool: without them it works, but somewhere else."""


def pass_on(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables of `environ` that a server's process gets beyond `INHERITED`: how to reach the network, and the
    settings of `program` (a name or a path) where it has any.
    """
    settings = SETTINGS.get(PurePath(program).name, ())
    return {
        name: value
        for name, value in environ.items()
        if (lower := name.lower()) in NETWORK or lower.startswith(settings)
    }
