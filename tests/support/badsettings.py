"""Invalid values: one for each setting of a process that does not accept every text.

Invalid numbers are derived from bounds, so a number without a lower bound fails the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from charts.values import SETTINGS, Json, fields

ANY_TEXT: Final = frozenset(
    {
        "session_key",
        "grant_keys",
        "audit_key",
        "console_client_secret",
        "console_client_id",
        "console_issuer",
        "console_scopes",
        "admin_groups",
        "key_makers",
        "embedder_model",
        "embedder_instruction",
        "compressor_model",
        "redis_prefix",
        "identity",
    }
)
"""Settings that accept any text. `identity` is that of the operator, the holder of its Lease."""
READ_LATER: Final = frozenset(
    {
        "documents",
        "credentials",
        "kubeconfig",
        "routes",
        "tools",
        "cache_dir",
        "api_keys",
        "identity",
        "made_keys",
        "tls_cert",
        "tls_key",
        "tls_client_ca",
        "context_directory",
        "grants_directory",
        "grant_keys_file",
        "search_directory",
        "audit_file",
        "audit_redact",
        "tiers",
        "owner_token",
    }
)
"""Settings whose values can be checked only after reading a file, and paths in arguments."""
TEXTS: Final[dict[str, str]] = {
    "host": "127.0.0.1:8080/mcp",
    "metrics_host": "every address",
    "pod_ips": "10.0.0.0/8",
    "namespace": "Team_A",
    "watch_namespace": "team-",
    "pull_token": "a token",
    "embedder_key": "clé",
    "compressor_key": "a\tb",
    "installation": "fairlead-main",
    "environment": "-",
    "allowed_hosts": "https://tools.example.com",
    "allowed_origins": "https://app.example.com/page",
    "api_key_secrets": "Keys",
    "made_keys_secret": "made/keys",
    "grants_secret": "grants/of/people",
    "public_url": "tools.example.com",
    "trusted_proxies": "10.0.0.0/33",
    "allowed_urls": "http://tools.example.com",
    "denied_networks": "banana",
    "token_exchange_allowed": "login.example.com",
    "api_server_networks": "256.0.0.1",
    "redis": "http://r",
    "embedder_url": "models:8000/v1",
    "compressor_url": "ftp://models/v1",
    "console_url": "https://",
    "console_trace_url": "https://grafana.example.com/explore",
    "default_tier": "fast!",
    "lease_name": "fairlead operator",
    "credentials_name": "Credentials",
    "installation_secret": "a_b",
    "owner_service": "a_b",
    "image_pull_secrets": "registry/login",
    "any_pod_templates_in": "team.a",
    "secret_namespaces": "team.a",
    "listener_image": "busy box",
    "runner_image": "-",
    "gateways": "fairlead-gateway-ops:9464",
}


class BadSettingValue(NamedTuple):
    """A setting of a process, and a value that it rejects."""

    component: str
    name: str
    schema: Json
    text: str
    """The value as an environment variable."""

    @property
    def variable(self) -> str:
        return f"FAIRLEAD_{self.name.upper()}"

    @property
    def value(self) -> Any:
        """The value in the form of the chart's values."""
        kind = self.schema.get("type")
        if kind in ("integer", "number"):
            return float(self.text)
        return [self.text] if kind == "array" else self.text


def _bad_values() -> Iterator[BadSettingValue]:
    for component, settings in SETTINGS.items():
        for name, schema, _ in fields(settings):
            if name not in ANY_TEXT | READ_LATER:
                yield BadSettingValue(component, name, schema, _bad(name, schema))


def _bad(name: str, schema: Json) -> str:
    if schema.get("type") in ("integer", "number"):
        return str(schema["minimum"] - 1 if "minimum" in schema else schema["exclusiveMinimum"])
    if schema.get("type") == "boolean" or "enum" in schema:
        return "perhaps"
    return TEXTS[name]


BAD_VALUES: Final = tuple(_bad_values())
"""One bad value for each setting of both processes that does not accept any text."""
