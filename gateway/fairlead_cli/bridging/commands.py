"""`fairlead bridge`: its options and help."""

from __future__ import annotations

from typing import Annotated

import typer

from fairlead_cli.options import HeaderOption, TokenOption


def bridge(
    url: Annotated[str, typer.Argument(metavar="URL", help="MCP endpoint of a gateway, or of any MCP server.")],
    header: HeaderOption = None,
    token: TokenOption = None,
    key_env: Annotated[
        str | None,
        typer.Option("--key-env", metavar="NAME", help="Environment variable that holds the API key."),
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds to retry a request while the gateway cannot be reached.")
    ] = 15.0,
) -> None:
    """Speak MCP on standard input and output, for clients that start a program, and relay it to an HTTP endpoint.

    After a restart of the gateway, a new session is opened, and the client is notified to list tools again. A request
    that may have been executed is repeated only if that is safe. Errors are sent to the client, and printed on standard
    error.

    Examples:

        fairlead bridge http://127.0.0.1:8080/mcp

        fairlead bridge https://tools.example.com/mcp --token @~/.config/fairlead/me.key
    """
    from fairlead_cli.connecting import Destination, check_url
    from fairlead_cli.failure import needs

    with needs("up"):
        from fairlead_cli.bridging.relay import run_bridge

    check_url(url, "URL", "fairlead bridge")
    run_bridge(Destination.parse(url, header or [], None, patience, _credential(token, key_env)))


def _credential(token: str | None, key_env: str | None) -> str | None:
    """The credential from the options. Raises Failure if the variable is not set."""
    import os

    from fairlead_cli.failure import USAGE_ERROR, Failure

    if key_env is None:
        return token
    if not os.environ.get(key_env):
        raise Failure(f"--key-env: {key_env} is not set in the environment of the client", code=USAGE_ERROR)
    return os.environ[key_env]
