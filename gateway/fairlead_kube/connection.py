"""Loads address and credentials of the API server from a kubeconfig or the pod's ServiceAccount."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException
from yaml import YAMLError

from fairlead_api.yaml_files import yaml_problem

DEFAULT_KUBECONFIG: Final = "~/.kube/config"
LOCAL_ADVICE: Final = "without a cluster, `fairlead up` runs everything on this machine"


class NoCluster(Exception):
    """No usable configuration was found. The message is one sentence that says what to do."""


async def load_configuration(
    kubeconfig: str | Path | None = None, *, local_advice: str = LOCAL_ADVICE
) -> Configuration:
    """Load the configuration from `kubeconfig`, else from `KUBECONFIG`, `~/.kube/config`, or the pod's ServiceAccount.
    Later requests read a rotated token again.

    Raises NoCluster if there is no configuration. `local_advice` is the end of that error's message: what to do without
    a cluster.
    """
    configuration = Configuration()
    path = str(kubeconfig or os.environ.get("KUBECONFIG", ""))
    try:
        if path or Path(DEFAULT_KUBECONFIG).expanduser().exists():  # noqa: ASYNC240 - once, before anything runs
            await load_kube_config(config_file=path or DEFAULT_KUBECONFIG, client_configuration=configuration)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            load_incluster_config(client_configuration=configuration)
        else:
            raise NoCluster(
                f"no cluster to connect to: set KUBECONFIG, or put a kubeconfig at {DEFAULT_KUBECONFIG}; {local_advice}"
            )
    except (ConfigException, OSError, YAMLError, TypeError, ValueError) as error:
        source = path or "the pod's ServiceAccount"
        raise NoCluster(f"{source} cannot be used to connect to a cluster: {yaml_problem(error)}") from error
    return configuration
