"""Chart.yaml and the chart's pages, which Artifact Hub shows."""

from __future__ import annotations

import re

import yaml

from controlplane import REPOSITORY
from helmworld import CHART

METADATA = yaml.safe_load((CHART / "Chart.yaml").read_text())


def test_artifact_hub_shows_the_kinds_that_the_chart_installs() -> None:
    shown = yaml.safe_load(METADATA["annotations"]["artifacthub.io/crds"])
    files = [yaml.safe_load(path.read_text()) for path in sorted((CHART / "files" / "crds").glob("*.yaml"))]
    assert {(each["kind"], each["version"], each["name"]) for each in shown} == {
        (crd["spec"]["names"]["kind"], version["name"], crd["metadata"]["name"])
        for crd in files
        for version in crd["spec"]["versions"]
    }


def test_the_chart_takes_the_releases_that_are_tested_and_no_older_one() -> None:
    oldest = re.search(r"KUBE_OLDEST=v(1\.\d+)", (REPOSITORY / "hack" / "kubernetes" / "env.sh").read_text())
    assert oldest is not None
    assert METADATA["kubeVersion"] == f">={oldest[1]}.0-0"


def test_the_page_of_versions_names_the_releases_that_are_tested() -> None:
    releases = dict(re.findall(r"KUBE_(NEWEST|OLDEST)=v(1\.\d+)", (REPOSITORY / "hack/kubernetes/env.sh").read_text()))
    page = " ".join((REPOSITORY / "docs" / "reference" / "api-versions.md").read_text().split())
    assert f"The oldest Kubernetes that the chart takes is {releases['OLDEST']} " in page
    assert f"the newest that is tested is {releases['NEWEST']}." in page


def test_chart_yaml_claims_no_url() -> None:
    """URLs are to be added with the first release. The linter only recommends an icon."""
    assert "://" not in (CHART / "Chart.yaml").read_text()


def test_the_page_links_to_files_that_exist_and_names_files_of_the_repository_that_do() -> None:
    text = (CHART / "README.md").read_text()
    links = re.findall(r"\]\(([^)#]+)", text)
    for link in (each for each in links if not each.startswith("https://kind.sigs.k8s.io")):
        assert (CHART / link).exists(), link
    named = re.findall(r"`([^`]+)` in\s+the\s+repository", text)
    assert [path for path in named if not (REPOSITORY / path).exists()] == []
    assert named
