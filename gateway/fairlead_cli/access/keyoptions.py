"""Options for the location of API keys: a file, a Secret of a cluster, a folder of `fairlead up`, or a gateway."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from fairlead_cli.options import (
    GatewayOption,
    HeaderOption,
    KubeconfigOption,
    StateDirOption,
    TimeoutOption,
    TokenOption,
)


@dataclass(frozen=True)
class KeyOptions:
    """Options for the location of keys; at most one of file, Secret, folder and URL may be given."""

    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", envvar="FAIRLEAD_API_KEYS", help="File of keys. Default: keys.json."),
    ] = None
    secret: Annotated[
        str | None, typer.Option("--secret", metavar="NAME", help="Secret of a cluster, instead of a file.")
    ] = None
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", envvar="FAIRLEAD_NAMESPACE", help="Namespace of the release.")
    ] = "fairlead-system"
    kubeconfig: KubeconfigOption = None
    state_dir: StateDirOption = None
    url: GatewayOption = None
    header: HeaderOption = None
    token: TokenOption = None
    timeout: TimeoutOption = 30.0


@dataclass(frozen=True)
class NewKeyFile:
    """Options for the file of a new key."""

    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the key to a file that only its owner can read.")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file of --out.")] = False
