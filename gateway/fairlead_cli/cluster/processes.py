"""`fairlead operator` and `fairlead gateway`: their options and help. Options become settings of each process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from fairlead_cli.failure import USAGE_ERROR, Failure, needs
from fairlead_cli.options import KubeconfigOption, RoutesOption, ToolsOption

ProcessSettings = TypeVar("ProcessSettings")
"""Settings of a process."""
NamespaceOption = Annotated[
    str | None, typer.Option(help="Namespace of the release, with its documents and credentials.")
]


class LogLevel(StrEnum):
    """Values of `--log-level`."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


class Anonymous(StrEnum):
    """Values of `--anonymous`."""

    allow = "allow"
    deny = "deny"


class LogFormat(StrEnum):
    """Values of `--log-format`."""

    text = "text"
    json = "json"


class PodTemplates(StrEnum):
    """Values of `--pod-templates`."""

    restricted = "Restricted"
    any = "Any"


LogLevelOption = Annotated[LogLevel | None, typer.Option(help="Lowest level to log.")]
LogFormatOption = Annotated[LogFormat | None, typer.Option(help="text for people, json for collectors.")]


def operator(
    kubeconfig: KubeconfigOption = None,
    namespace: NamespaceOption = None,
    pod_templates: Annotated[
        PodTemplates | None,
        typer.Option(help="Pod template fields that servers may set: Restricted (default) or Any."),
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics and the probes. Default: 9464.")] = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Run the operator of a cluster. It runs the McpServers that the cluster declares, and publishes their tools.

    Every setting can also be given as an environment variable, such as FAIRLEAD_NAMESPACE for --namespace.

    Example: fairlead operator --kubeconfig ~/.kube/config --namespace fairlead-system
    """
    options = locals()
    with needs("operator"):
        from fairlead_api.bad_setting import BadSetting
        from fairlead_operator.__main__ import run
        from fairlead_operator.settings import Settings

    _run(run, Settings.from_env, BadSetting, options | {"kubeconfig": None if kubeconfig is None else str(kubeconfig)})


def gateway(
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port for MCP clients. Default: 8080.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics. Default: 9464.")] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Read the documents from this directory instead of from a cluster.")
    ] = None,
    credentials: Annotated[
        Path | None, typer.Option(help="Directory of credentials. Default: `credentials` in --documents.")
    ] = None,
    routes: RoutesOption = None,
    tools: ToolsOption = None,
    cache_dir: Annotated[
        Path | None,
        typer.Option(
            help="Directory that keeps the last catalog, which is served while the cluster cannot be reached."
        ),
    ] = None,
    anonymous: Annotated[
        Anonymous | None,
        typer.Option(
            help="Whether to accept requests without a credential. Default: deny on a cluster, or if clients can "
            "authenticate; else allow."
        ),
    ] = None,
    api_keys: Annotated[Path | None, typer.Option(help="File of API keys, as `fairlead keys` writes it.")] = None,
    identity: Annotated[Path | None, typer.Option(help="YAML file of the issuers whose tokens are accepted.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="URL by which clients reach the gateway: the audience of their tokens.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain for TLS; read again when it changes.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Private key of the certificate.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Certificate authorities of client certificates, which are then required.")
    ] = None,
    kubeconfig: KubeconfigOption = None,
    namespace: NamespaceOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Run the gateway, which serves to MCP clients the tools that an operator has published.

    Every setting can also be given as an environment variable, such as FAIRLEAD_PORT for --port.

    Example: fairlead gateway --kubeconfig ~/.kube/config --namespace fairlead-system --port 8080
    """
    options = locals()
    with needs("gateway"):
        from fairlead_api.bad_setting import BadSetting
        from fairlead_app.__main__ import run
        from fairlead_app.settings import Settings

    _run(run, Settings.from_env, BadSetting, options | {"tools": tuple(tools) if tools else None})


def _run(
    run: Callable[[ProcessSettings], int],
    from_env: Callable[..., ProcessSettings],
    error_type: type[Exception],
    options: dict[str, Any],
) -> NoReturn:
    """Run a process until a signal, and exit with its exit code. `options` has values by setting name; None leaves a
    setting to the environment. Raises Failure if `from_env` raises `error_type`.
    """
    values = {name: value.value if isinstance(value, StrEnum) else value for name, value in options.items()}
    if values["log_level"] is not None:
        values["log_level"] = values["log_level"].upper()  # the names of `logging`
    try:
        settings = from_env(**values)
    except error_type as error:
        raise Failure(str(error), code=USAGE_ERROR) from error
    sys.exit(run(settings))
