"""Volumes for claims of end-to-end tests, on a cluster that has no default StorageClass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from installation import Json, apply, kubectl, read

DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


@contextmanager
def volumes(name: str, count: int, root: Path) -> Iterator[str]:
    """Name of a StorageClass that has a volume for each of `count` claims; empty where the cluster has a default one.

    Without one the volumes are folders in `root`: the cluster is that of hack/cluster, whose node is this machine.
    """
    classes = read("storageclasses")["items"]
    if any(each["metadata"].get("annotations", {}).get(DEFAULT) == "true" for each in classes):
        yield ""
        return
    names = [f"{name}-{number}" for number in range(count)]
    for each in names:
        (root / each).mkdir()
        (root / each).chmod(0o777)  # a hostPath heeds no fsGroup
    apply(*(_volume(each, name, root / each) for each in names))
    try:
        yield name
    finally:
        kubectl("delete", "persistentvolumes", "--wait=false", *names)


def _volume(name: str, storage_class: str, folder: Path) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
        "hostPath": {"path": str(folder)},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
