"""Commands and values of the chart's page: its helm commands in order, and its values for production."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from controlplane import REPOSITORY, ControlPlane, PlaneFactory
from helmworld import CHART, NAMESPACE, Helm, Refused, get, rendered_object
from page_reader import blocks
from waiting import until

pytestmark = pytest.mark.timeout(300)

PAGE = (CHART / "README.md").read_text()
FOREIGN_KINDS = Path(__file__).with_name("crds") / "others.yaml"
"""CRDs of other projects of which the chart creates objects."""


def commands(program: str) -> list[list[str]]:
    """The page's command lines for `program`, without options that wait for pods, because no pods run here."""
    lines = [shlex.split(line) for block in blocks(PAGE, "sh") for line in block.splitlines()]
    return [[word for word in line[1:] if word != "--wait"] for line in lines if line and line[0] == program]


def test_the_commands_of_the_page_do_what_it_says(
    private_plane: PlaneFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = private_plane(controllers=True, crds=False)
    plane.kubectl("apply", "--server-side", "-f", str(FOREIGN_KINDS))
    helm = Helm(tmp_path, plane)
    (tmp_path / "charts").symlink_to(CHART.parent)
    (production,) = blocks(PAGE, "yaml")
    (tmp_path / "production.yaml").write_text(production)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "images.yaml").write_text('image: {repository: localhost/fairlead, tag: "1", variant: ""}\n')
    monkeypatch.chdir(tmp_path)
    install, _, samples, production_upgrade, forced_upgrade, uninstall = commands("helm")

    helm(*install)
    plane.await_definitions()
    helm(*samples)
    assert [item["metadata"]["name"] for item in get(plane, "mcps", "-n", NAMESPACE)] == ["chandler"]
    helm(*production_upgrade)
    assert len(get(plane, "horizontalpodautoscalers,ingresses,podmonitors", "-n", NAMESPACE)) == 4
    plane.kubectl("-n", NAMESPACE, "set", "image", "deployment/fairlead-operator", "operator=x/y:2")
    with pytest.raises(Refused, match=r'conflict with \\?"kubectl-set'):
        helm(*production_upgrade)
    helm(*forced_upgrade)
    operator = rendered_object(get(plane, "deployments", "-n", NAMESPACE), "Deployment", "fairlead-operator")
    assert operator["spec"]["template"]["spec"]["containers"][0]["image"] != "x/y:2"
    helm(*uninstall)
    until("no Deployment", lambda: get(plane, "deployments", "-n", NAMESPACE) == [], seconds=30)
    for deletion in commands("kubectl"):
        if deletion[0] == "delete":
            plane.kubectl(*deletion, seconds=150)
    until("no CRD of Fairlead", lambda: fairlead_crds(plane) == [], seconds=30)


@pytest.mark.parametrize("page", ["README.md", "docs/install/cluster.md"])
def test_other_pages_use_the_same_commands(page: str) -> None:
    page_commands = re.findall(r"^helm \w+ fairlead .*$", (REPOSITORY / page).read_text(), re.MULTILINE)
    assert len(page_commands) == 2
    assert set(page_commands) <= set(PAGE.splitlines())


def fairlead_crds(plane: ControlPlane) -> list[str]:
    return [name for crd in get(plane, "crds") if (name := crd["metadata"]["name"]).endswith("fairlead.dev")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            (),
            [
                "Clients need a credential",
                "fairlead keys create NAME --secret fairlead-api-keys",
                "are allowed for all clients",
            ],
        ),
        (("--set", "gateway.settings.anonymous=allow"), ["Clients need NO credential", "8080:80"]),
        (
            ("--set", "watchNamespace=team", "--set", "servers.defaultAction=Deny"),
            ["in the namespace team, the only namespace that the operator watches", "are denied to all clients"],
        ),
        (
            ("--set", "gateway.ingress.enabled=true,gateway.ingress.hosts={a.example},gateway.ingress.tlsSecret=c"),
            ["https://a.example/mcp"],
        ),
        (
            ("--set", "tls.secret=c,gateway.service.port=8443"),
            ["https://fairlead-gateway.fairlead-system.svc:8443/mcp"],
        ),
    ],
)
def test_the_notes_of_the_chart_say_how_to_reach_the_gateway_and_who_may(
    tmp_path: Path, words: tuple[str, ...], told: list[str]
) -> None:
    notes = Helm(tmp_path)("install", "fairlead", CHART, "--namespace", NAMESPACE, "--dry-run=client", *words)
    for sentence in told:
        assert sentence in notes
