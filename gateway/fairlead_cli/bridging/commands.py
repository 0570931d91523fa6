"""`fairlead bridge` with its options and help. No work is done here."""

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
        typer.Option("--key-env", metavar="NAME", help="Environment variable that holds the API key, by another name."),
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="Seconds for which a request waits for a gateway that cannot be reached.")
    ] = 15.0,
) -> None:
    """Speak MCP over standard input and output, for clients that start a program, and pass it on to an endpoint.

    When a gateway restarts, a new session is opened, and the client is asked to list again. Nothing that may have been
    carried out is sent twice. What goes wrong is told to the client, and on standard error.

    Examples:

        fairlead bridge http://127.0.0.1:8080/mcp

        fairlead bridge https://tools.example.com/mcp --token @~/.config/fairlead/me.key
    """
    from fairlead_cli.connecting import Destination, check_url
    from fairlead_cli.failure import needs

    with needs("up"):
        from fairlead_cli.bridging.relay import run_bridge

    check_url(url, "fairlead bridge")
    run_bridge(Destination.parse(url, header or [], None, patience, _credential(token, key_env)))


def _credential(token: str | None, key_env: str | None) -> str | None:
    """The credential of the options. Raises Failure where the variable is not set."""
    import os

    from fairlead_cli.failure import USED_WRONGLY, Failure

    if key_env is None:
        return token
    if not os.environ.get(key_env):
        raise Failure(f"--key-env: {key_env} is not set where the client starts the bridge", code=USED_WRONGLY)
    return os.environ[key_env]
