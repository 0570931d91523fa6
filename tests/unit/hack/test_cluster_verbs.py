"""The cluster that `hack/cluster` and `hack/images --load` use: a kind cluster, if Docker answers.

Docker and kind are fakes that record their commands, except in the test that needs the real programs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[3]
KIND_IS_HERE = (
    shutil.which("kind") is not None
    and shutil.which("docker") is not None
    and not subprocess.run(["docker", "info"], capture_output=True, check=False).returncode
)
NOTES = 'echo "${0##*/} $*" >>"$NOTES"\n'


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine where Docker answers and kind is installed."""
    programs = tmp_path / "programs"
    programs.mkdir()
    docker = '[ "$1" != save ] || : >"$3"\n'
    for name, does in {"docker": docker, "kind": '[ "$1 $2" != "get clusters" ] || echo other\n'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{NOTES}{does}")
        (programs / name).chmod(0o755)
    own = {"NOTES": str(tmp_path / "notes"), "KUBE_RUN": str(tmp_path / "run"), "HOME": str(tmp_path)}
    return {**own, "PATH": f"{programs}:{os.environ['PATH']}"}


def hack(machine: dict[str, str], *words: str) -> tuple[str, list[str]]:
    """Standard output of a verb, and the commands that docker and kind received."""
    notes = Path(machine["NOTES"])
    notes.write_text("")
    command = [str(REPOSITORY / "hack" / words[0]), *words[1:]]
    done = subprocess.run(command, env=machine, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in notes.read_text().splitlines() if line != "docker info"]


def test_the_cluster_is_one_of_kind_where_docker_answers(machine: dict[str, str]) -> None:
    told, done = hack(machine, "cluster", "up")
    kubeconfig = f"{machine['KUBE_RUN']}/kind.kubeconfig"
    assert told == f"{kubeconfig}\n"
    config = Path(machine["KUBE_RUN"]) / "kind.yaml"
    assert config.read_text().endswith("networking: {ipFamily: ipv4}\n")
    assert done[1] == f"kind create cluster --name fairlead --config {config} --kubeconfig {kubeconfig} --wait 180s"
    assert hack(machine, "cluster", "down")[1] == [f"kind delete cluster --name fairlead --kubeconfig {kubeconfig}"]


def test_a_cluster_is_of_the_release_that_is_asked_for(machine: dict[str, str]) -> None:
    folder = REPOSITORY / "hack" / "kubernetes"
    for release, variables in (("newest", {}), ("oldest", {"KUBE_RELEASE": "oldest"})):
        hack({**machine, **variables}, "cluster", "up")
        image = yaml.safe_load((folder / f"kind-{release}.yaml").read_text())["nodes"]
        assert yaml.safe_load((Path(machine["KUBE_RUN"]) / "kind.yaml").read_text())["nodes"] == image


def test_a_release_that_there_is_not_is_refused(machine: dict[str, str]) -> None:
    command = [str(REPOSITORY / "hack" / "cluster"), "up"]
    done = subprocess.run(command, env={**machine, "KUBE_RELEASE": "1.35"}, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "KUBE_RELEASE is 1.35; it takes newest and oldest\n"


def test_a_second_cluster_without_kind_is_refused_while_another_runs(machine: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "clusters" / "kubernetes-oldest"
    (other / "pid").mkdir(parents=True)
    command = [str(REPOSITORY / "hack" / "kubernetes" / "cluster"), "up"]
    environment = {**machine, "KUBE_RUN": str(other.with_name("kubernetes"))}
    with subprocess.Popen(["sh", "-c", "read line", f"{other}/containerd.toml"], stdin=subprocess.PIPE) as running:
        (other / "pid" / "containerd").write_text(f"{running.pid}\n")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
        running.terminate()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"another cluster runs: end it with KUBE_RUN={other} hack/cluster down\n"


@pytest.fixture
def without_clients(machine: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A machine with Docker and kind, but without helm, kubectl and Go."""
    others = tmp_path / "others"
    others.mkdir()
    for folder in map(Path, os.environ["PATH"].split(":")):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name not in ("helm", "kubectl", "go", "kind", "docker") and not (others / program.name).exists():
                (others / program.name).symlink_to(program)
    programs = machine["PATH"].split(":")[0]
    return {**machine, "PATH": f"{programs}:{others}", "KUBE_BIN": str(tmp_path / "compiled")}


def test_a_shell_gets_the_cluster_and_what_it_lacks_of_helm_and_kubectl(without_clients: dict[str, str]) -> None:
    folder = Path(without_clients["KUBE_BIN"])
    folder.mkdir()
    for name in ("helm", "kubectl"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    script = 'eval "$(hack/cluster env)"; printf "%s\n" "$KUBECONFIG"; command -v helm kubectl'
    command = ["bash", "-c", script]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=without_clients, capture_output=True, text=True, timeout=30, check=True
    )
    kubeconfig = f"{without_clients['KUBE_RUN']}/kind.kubeconfig"
    assert done.stdout.splitlines() == [kubeconfig, f"{folder}/helm", f"{folder}/kubectl"]


def test_a_machine_that_can_have_no_helm_is_told_so(without_clients: dict[str, str]) -> None:
    command = [str(REPOSITORY / "hack" / "cluster"), "env"]
    done = subprocess.run(command, env=without_clients, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (1, "")
    assert "install helm, or Go 1.26 or newer to compile it" in done.stderr


def test_images_say_how_far_they_are(machine: dict[str, str]) -> None:
    command = [str(REPOSITORY / "hack" / "images")]
    told = subprocess.run(command, env=machine, capture_output=True, text=True, timeout=60, check=True).stderr
    assert "5 images: 5 to 8 minutes the first time" in told
    assert "building localhost/fairlead-servers:0.1.0 (5 of 5)" in told


def test_images_are_built_by_docker_and_loaded_into_kind(machine: dict[str, str]) -> None:
    values = Path(machine["NOTES"]).with_name("values.yaml")
    told, done = hack(machine, "images", "--values", str(values), "--load", "fairlead", "fairlead-demo")
    names = ["localhost/fairlead:0.1.0", "localhost/fairlead-demo:0.1.0"]
    assert told.split() == names
    built = [line for line in done if line.startswith("docker build ")]
    assert [line.split(" -t ")[1].split()[0] for line in built] == names
    assert all("--build-arg VERSION=0.1.0" in line and "BASE=" not in line for line in built)  # the default base
    loaded = [line.split()[-1] for line in done if line.startswith("kind load image-archive --name fairlead ")]
    assert [Path(path).name for path in loaded] == ["fairlead.tar", "fairlead-demo.tar"]
    assert not any(Path(path).exists() for path in loaded)
    assert yaml.safe_load(values.read_text())["samples"]["demoImage"] == {
        "repository": "localhost/fairlead-demo",
        "tag": "0.1.0",
    }


def test_hack_images_uses_a_given_base_and_prefix(machine: dict[str, str], tmp_path: Path) -> None:
    machine["BASE"] = "registry.example.com/python:3.14"
    words = ["--prefix", "registry.example.com/team", "--tag", "7", "--values", str(tmp_path / "values.yaml")]
    told, done = hack(machine, "images", *words, "fairlead-demo")

    (built,) = [line for line in done if line.startswith("docker build ")]
    assert "--build-arg BASE=registry.example.com/python:3.14" in built
    assert told.split() == ["registry.example.com/team/fairlead-demo:7"]
    values = yaml.safe_load((tmp_path / "values.yaml").read_text())
    assert values["image"] == {"repository": "registry.example.com/team/fairlead", "tag": "7", "variant": ""}


@pytest.mark.skipif(not KIND_IS_HERE, reason="needs kind and a Docker daemon that answers")
def test_a_real_cluster_of_kind_is_made_used_and_taken_down(tmp_path: Path) -> None:
    machine = {**os.environ, "KUBE_RUN": str(tmp_path), "KIND_CLUSTER": f"fairlead-{uuid.uuid4().hex[:8]}"}

    def verb(*words: str) -> str:
        command = [str(REPOSITORY / "hack" / "cluster"), *words]
        return subprocess.run(command, env=machine, capture_output=True, text=True, timeout=600, check=True).stdout

    try:
        kubeconfig = verb("up").strip()
        assert Path(kubeconfig).is_file()
        assert verb("up").strip() == kubeconfig
        assert f"{machine['KIND_CLUSTER']}-control-plane" in verb("status")
    finally:
        verb("down")


def test_busy_pods_do_not_starve_the_name_server_of_the_cluster_without_kind() -> None:
    script = (REPOSITORY / "hack" / "kubernetes" / "cluster").read_text()
    (document,) = [part for part in script.split("\n---\n") if "kind: Deployment\nmetadata: {name: coredns" in part]
    (container,) = yaml.safe_load(document)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "100m"
