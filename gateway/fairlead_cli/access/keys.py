"""`fairlead keys`: make, list and revoke API keys, in a file or in a Secret, with their options and help.

No work is done here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import (
    GatewayOption,
    HeaderOption,
    KubeconfigOption,
    OutputOption,
    StateDirOption,
    TimeoutOption,
    TokenOption,
    helped,
)
from fairlead_cli.output import Output

keys = typer.Typer(help="Make, list and revoke API keys of a gateway.", invoke_without_command=True, callback=helped)

FileOption = Annotated[
    Path | None,
    typer.Option("--file", "-f", envvar="FAIRLEAD_API_KEYS", help="File of keys; keys.json by default."),
]
SecretOption = Annotated[
    str | None, typer.Option("--secret", metavar="NAME", help="Keep them in this Secret of a cluster instead.")
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", envvar="FAIRLEAD_NAMESPACE", help="Namespace of the release.")
]


@keys.command()
def create(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The name that policies know the holder by.")],
    group: Annotated[list[str] | None, typer.Option("--group", "-g", help="May be given several times.")] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long it is good for: 12h, 90d. Forever by default.")
    ] = None,
    file: FileOption = None,
    secret: SecretOption = None,
    namespace: NamespaceOption = "fairlead-system",
    kubeconfig: KubeconfigOption = None,
    state_dir: StateDirOption = None,
    url: GatewayOption = None,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the key there, for its owner alone, and do not print it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --out if there is one.")] = False,
    output: OutputOption = Output.table,
) -> None:
    """Make a key and print it, once: only a hash of it is kept. A running gateway takes it within a second.

    With --url the gateway makes it, for a caller that shows a credential: AGENT is the key's name in lists, and the key
    has the rights of that credential.

    Examples:

        fairlead keys create npc --group game --out npc.key

        fairlead keys create me --state-dir ~/fairlead        (of a fairlead up with that folder)

        fairlead keys create laptop --expires 30d --url https://tools.example.com/mcp

        fairlead keys create qa --secret fairlead-api-keys --namespace fairlead-system
    """
    from fairlead_cli.access.asking import GatewayKeys
    from fairlead_cli.access.keyoutput import KeyOutput
    from fairlead_cli.access.keyring import KeyOptions, key_location, run_create

    to = None if out is None else KeyOutput(out, overwrite=overwrite)
    location = key_location(
        KeyOptions(file, secret, namespace, kubeconfig, state_dir, url, header or [], token, timeout)
    )
    if isinstance(location, GatewayKeys):
        location.create(agent, group or [], expires, output, to)
    else:
        run_create(location, agent, group or [], expires, output, to)


@keys.command("list")
def list_keys(
    file: FileOption = None,
    secret: SecretOption = None,
    namespace: NamespaceOption = "fairlead-system",
    kubeconfig: KubeconfigOption = None,
    state_dir: StateDirOption = None,
    url: GatewayOption = None,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """List the keys by id, agent and groups.

    Example: fairlead keys list --file keys.json
    """
    from fairlead_cli.access.asking import GatewayKeys
    from fairlead_cli.access.keyring import KeyOptions, key_location, run_list

    location = key_location(
        KeyOptions(file, secret, namespace, kubeconfig, state_dir, url, header or [], token, timeout)
    )
    if isinstance(location, GatewayKeys):
        location.list(output)
    else:
        run_list(location, output)


@keys.command()
def revoke(
    ident: Annotated[str, typer.Argument(metavar="ID", help="The id of a key, or the key itself.")],
    file: FileOption = None,
    secret: SecretOption = None,
    namespace: NamespaceOption = "fairlead-system",
    kubeconfig: KubeconfigOption = None,
    state_dir: StateDirOption = None,
    url: GatewayOption = None,
    header: HeaderOption = None,
    token: TokenOption = None,
    timeout: TimeoutOption = 30.0,
    output: OutputOption = Output.table,
) -> None:
    """Revoke a key. A running gateway refuses it within a second, and ends the streams that it opened.

    Example: fairlead keys revoke 3f9a0c2b77d1
    """
    from fairlead_cli.access.asking import GatewayKeys
    from fairlead_cli.access.keyring import KeyOptions, key_location, run_revoke

    location = key_location(
        KeyOptions(file, secret, namespace, kubeconfig, state_dir, url, header or [], token, timeout)
    )
    if isinstance(location, GatewayKeys):
        location.revoke(ident, output)
    else:
        run_revoke(location, ident, output)
