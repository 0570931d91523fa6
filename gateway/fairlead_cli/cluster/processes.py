"""`fairlead operator` and `fairlead gateway`, with their options and help: options to settings to their own `run`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fairlead_cli.failure import USED_WRONGLY, Failure, needs
from fairlead_cli.options import KubeconfigOption, RoutesOption, ToolsOption

NamespaceOption = Annotated[
    str | None, typer.Option(help="Namespace of the release: where documents and credentials are kept.")
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


LogLevelOption = Annotated[LogLevel | None, typer.Option(help="Least severe level that is logged.")]
LogFormatOption = Annotated[LogFormat | None, typer.Option(help="text for people, json for collectors.")]


def operator(
    kubeconfig: KubeconfigOption = None,
    namespace: NamespaceOption = None,
    pod_templates: Annotated[
        PodTemplates | None,
        typer.Option(help="Fields that spec.podTemplate of a server may set: Restricted (the default) or Any."),
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics and the probes; 9464 by default.")] = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Run the operator of a cluster: it runs the McpServers that are declared there, and publishes their tools.

    Every setting can also be given as an environment variable, FAIRLEAD_NAMESPACE for --namespace and so on.

    Example: fairlead operator --kubeconfig ~/.kube/config --namespace fairlead-system
    """
    _run_operator(
        kubeconfig=None if kubeconfig is None else str(kubeconfig),
        namespace=namespace,
        pod_templates=None if pod_templates is None else pod_templates.value,
        metrics_port=metrics_port,
        log_level=None if log_level is None else log_level.value,
        log_format=None if log_format is None else log_format.value,
    )


def gateway(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="Port for MCP clients; 8080 by default.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics; 9464 by default.")] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Read the documents from this directory instead of from a cluster.")
    ] = None,
    credentials: Annotated[
        Path | None, typer.Option(help="Directory of credentials; the one in --documents by default.")
    ] = None,
    routes: RoutesOption = None,
    tools: ToolsOption = None,
    cache_dir: Annotated[
        Path | None, typer.Option(help="Keep the last catalog here, to serve it when the cluster cannot be reached.")
    ] = None,
    anonymous: Annotated[
        Anonymous | None,
        typer.Option(help="Whether requests without a credential are let in. By default where nothing below is given."),
    ] = None,
    api_keys: Annotated[Path | None, typer.Option(help="File of API keys, as `fairlead keys` writes it.")] = None,
    identity: Annotated[Path | None, typer.Option(help="YAML file of the issuers whose tokens are taken.")] = None,
    public_url: Annotated[
        str | None, typer.Option(help="How clients reach the gateway: the audience of their tokens.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate chain to listen with; read again on change.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option(help="Certificates that a client's own must lead to; nobody connects without one.")
    ] = None,
    kubeconfig: KubeconfigOption = None,
    namespace: NamespaceOption = None,
    log_level: LogLevelOption = None,
    log_format: LogFormatOption = None,
) -> None:
    """Run the gateway: it serves the tools that an operator has published to MCP clients.

    Every setting can also be given as an environment variable, FAIRLEAD_PORT for --port and so on.

    Example: fairlead gateway --kubeconfig ~/.kube/config --namespace fairlead-system --port 8080
    """
    _run_gateway(
        host=host,
        port=port,
        metrics_port=metrics_port,
        documents=documents,
        credentials=credentials,
        routes=routes,
        tools=tuple(tools) if tools else None,
        cache_dir=cache_dir,
        anonymous=None if anonymous is None else anonymous.value,
        api_keys=api_keys,
        identity=identity,
        public_url=public_url,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        kubeconfig=kubeconfig,
        namespace=namespace,
        log_level=None if log_level is None else log_level.value,
        log_format=None if log_format is None else log_format.value,
    )


def _run_operator(**options: Any) -> None:
    """Run the operator until a signal, and end with its exit code. Options that are None follow the environment."""
    with needs("operator"):
        from fairlead_operator.__main__ import run
        from fairlead_operator.settings import BadSetting, Settings

    try:
        settings = Settings.from_env(**_upper(options))
    except BadSetting as error:
        raise Failure(str(error), code=USED_WRONGLY) from error
    sys.exit(run(settings))


def _run_gateway(**options: Any) -> None:
    """Run the gateway until a signal, and end with its exit code. Options that are None follow the environment."""
    with needs("gateway"):
        from fairlead_gateway.__main__ import run
        from fairlead_gateway.settings import BadSetting, Settings

    try:
        settings = Settings.from_env(**_upper(options))
    except BadSetting as error:
        raise Failure(str(error), code=USED_WRONGLY) from error
    sys.exit(run(settings))


def _upper(options: dict[str, Any]) -> dict[str, Any]:
    """Levels as `logging` knows them."""
    level = options.get("log_level")
    return options if level is None else {**options, "log_level": level.upper()}
