"""LiteLLM and ContextForge: proxies with users, which require a key, unlike the others. Keys are created for each run;
all stored data is in the run's scratch folder.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gateway.peers.peer import Door, Peer, environment, venv
from rig.harness import Unmeasurable
from rig.processes import Stage

LITELLM_CONFIG = """general_settings:
  master_key: KEY
mcp_servers:
  up:
    url: UPSTREAM
    transport: http
"""
ADMIN = "admin@example.com"


def litellm() -> list[Peer]:
    """LiteLLM's proxy with one MCP server and its master key; without a database. Raises Unmeasurable."""
    program = venv("litellm", "litellm[proxy]", "uvloop") / "litellm"
    key = f"sk-{secrets.token_urlsafe(24)}"

    def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
        config = stage.folder / "litellm.yaml"
        config.write_text(LITELLM_CONFIG.replace("KEY", key).replace("UPSTREAM", url))
        return [program, "--config", config, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]

    variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "NO_DOCS": "True"}
    door = Door("/mcp/", f"x-litellm-api-key: Bearer {key}")
    return [Peer("LiteLLM", command, "up-echo", variables=variables, enter=lambda port, url: door, slow=True)]


def contextforge() -> list[Peer]:
    """ContextForge with one virtual server, as it comes and with sessions that last. Raises Unmeasurable."""
    programs = venv("contextforge", "mcp-contextforge-gateway")

    def form(name: str, **more: str) -> Peer:
        variables = {**_settings(), **more}

        def command(stage: Stage, port: int, url: str) -> Sequence[str | Path]:
            database = f"DATABASE_URL=sqlite:///{stage.folder / f'forge-{port}.db'}"
            words: list[str | Path] = [programs / "mcpgateway", "--host", "127.0.0.1", "--port", str(port)]
            return ["env", database, *words, "--workers", "1"]

        def enter(port: int, url: str) -> Door:
            return _registered(port, url, _token(programs, variables))

        return Peer(name, command, "up-echo", variables=variables, enter=enter, slow=True)

    return [form("ContextForge"), form("ContextForge, stateful sessions", USE_STATEFUL_SESSIONS="true")]


def _settings() -> dict[str, str]:
    def secret() -> str:
        return "Aa1!" + secrets.token_urlsafe(40)

    return {
        "JWT_SECRET_KEY": secret(),
        "AUTH_ENCRYPTION_SECRET": secret(),
        "BASIC_AUTH_PASSWORD": secret(),
        "PLATFORM_ADMIN_EMAIL": ADMIN,
        "PLATFORM_ADMIN_PASSWORD": secret(),
        "DEFAULT_USER_PASSWORD": secret(),
        "PASSWORD_CHANGE_ENFORCEMENT_ENABLED": "false",
        "MCPGATEWAY_UI_ENABLED": "false",
        "MCPGATEWAY_ADMIN_API_ENABLED": "true",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "SECURE_COOKIES": "false",
        "LOG_LEVEL": "ERROR",
        "CACHE_TYPE": "memory",
        "LLMCHAT_ENABLED": "false",
        "RATE_LIMITING_ENABLED": "false",
        "TOOL_RATE_LIMIT": "1000000000",
        "HEALTH_CHECK_INTERVAL": "3600",
    }


def _token(programs: Path, variables: dict[str, str]) -> str:
    words: list[str | Path] = [
        programs / "python",
        "-m",
        "mcpgateway.utils.create_jwt_token",
        "--username",
        ADMIN,
        "--admin",
    ]
    words += ["--exp", "600", "--secret", variables["JWT_SECRET_KEY"]]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=120, env={**environment(), **variables}
    )
    if done.returncode:
        raise Unmeasurable(f"ContextForge makes no token: {done.stderr[-300:]}")
    return str(done.stdout.split()[-1])


def _registered(port: int, url: str, token: str) -> Door:
    """The upstream registered, and its tools in one virtual server that anybody with a token may use."""
    bearer = f"Bearer {token}"

    def api(method: str, path: str, document: dict[str, Any] | None = None) -> Any:
        head = {"Authorization": bearer, "Content-Type": "application/json", "Accept": "application/json"}
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, head, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError) as error:
            raise Unmeasurable(f"ContextForge's {method} {path}: {error}") from error

    api("POST", "/gateways", {"name": "up", "url": url, "transport": "STREAMABLEHTTP", "visibility": "public"})
    tools = [tool["id"] for tool in api("GET", "/tools")]
    server = {"name": "bench", "associated_tools": tools, "visibility": "public"}
    made = api("POST", "/servers", {"server": server, "visibility": "public"})
    return Door(f"/servers/{made['id']}/mcp/", f"Authorization: {bearer}")
