"""Decisions of `hack/release`: versions, the release note, permitted content of images and wheels, the table of
artefacts."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from releasing.__main__ import STEPS, steps_of
from releasing.artefacts import Artefact, ImageFacts, check_image, table, unwanted
from releasing.chart import ALERTS, page, published, with_runbook_urls
from releasing.faults import Fault
from releasing.images import compressed, debian, image_facts
from releasing.versions import Version, agreed, changelog_section, newest, version_of_tag

ROOT = Path(__file__).parents[3]
LOG = """# Changelog

## Unreleased

- To come.

## [1.1.0] - 2026-12-01

- A second entry.

## 1.0.0

- The first entry.
"""


def image(size: int = 1, user: str = "65532:65532", *paths: str) -> ImageFacts:
    return ImageFacts("fairlead", size, user, frozenset(paths))


@pytest.mark.parametrize(
    ("tag", "version"),
    [("v1.2.0", Version("1.2.0", "1.2.0")), ("v1.2.0-rc.3", Version("1.2.0rc3", "1.2.0-rc.3"))],
)
def test_a_tag_names_a_version_for_packages_and_one_for_charts(tag: str, version: Version) -> None:
    assert version_of_tag(tag) == version
    assert version.tag == tag


@pytest.mark.parametrize("tag", ["1.2.0", "v1.2", "v1.2.0rc1", "v1.2.0-beta", "v1.2.0 "])
def test_other_tags_are_not_releases(tag: str) -> None:
    with pytest.raises(Fault, match="is not a tag of a release"):
        version_of_tag(tag)


def test_package_chart_and_tag_have_to_agree() -> None:
    assert agreed("1.2.0rc1", "1.2.0-rc.1", "1.2.0-rc.1", "v1.2.0-rc.1").chart == "1.2.0-rc.1"
    assert agreed("1.2.0", "1.2.0", "1.2.0", None).package == "1.2.0"
    for words, wrong in {
        ("1.2.1", "1.2.0", "1.2.0", "v1.2.0"): "that of pyproject.toml:",
        ("1.2.0", "1.2.0", "1.1.0", "v1.2.0"): "that of appVersion of Chart.yaml:",
        ("1.2.0", "1.2.0", "1.2.0", "v1.3.0"): "that of the tag v1.3.0:",
    }.items():
        with pytest.raises(Fault, match=wrong):
            agreed(*words)


def test_the_release_note_is_the_section_of_the_version() -> None:
    assert changelog_section(LOG, "1.1.0") == "- A second entry.\n"
    assert changelog_section(LOG, "1.0.0") == "- The first entry.\n"
    assert changelog_section(LOG, "Unreleased") == "- To come.\n"


@pytest.mark.parametrize("log", [LOG, LOG + "\n## 2.0.0\n"], ids=["missing", "empty"])
def test_a_version_that_the_changelog_says_nothing_of_is_not_released(log: str) -> None:
    with pytest.raises(Fault, match=r"says nothing of 2\.0\.0"):
        changelog_section(log, "2.0.0")


def test_the_newest_release_is_so_by_number_and_no_candidate() -> None:
    assert newest(["v1.9.0", "v1.10.0", "v2.0.0-rc.1", "nightly"]) == Version("1.10.0", "1.10.0")
    assert newest(["nightly", "v2.0.0-rc.1"]) is None


def test_an_image_has_a_bound_a_user_and_no_shell() -> None:
    check_image(image(63_000_000, "65532:65532", "opt/fairlead/bin/python", "usr/share/sh"))
    for wrong, reason in {
        image(63_000_001): "over its bound",
        image(1, ""): "runs as root",
        image(1, "65532:65532", "bin/sh"): "has a shell: bin/sh",
        image(1, "65532:65532", "usr/bin/busybox"): "has a shell: usr/bin/busybox",
    }.items():
        with pytest.raises(Fault, match=reason):
            check_image(wrong)


def test_pages_and_pictures_are_not_wanted_in_wheels() -> None:
    names = ["fairlead_mcp/__init__.py", "fairlead_mcp/README.md", "fairlead_rest/a.svg", "fairlead-1.dist-info/x.md"]
    names.append("fairlead_console/static/icon.svg")
    assert unwanted(names) == ["fairlead_mcp/README.md", "fairlead_rest/a.svg"]


def test_the_table_lists_artefacts_by_name() -> None:
    text = table([Artefact("b.whl", 1234567, "cd"), Artefact("a.tgz", 10, "ab")])
    assert text.splitlines()[2:] == ["| `a.tgz` | 10 | `ab` |", "| `b.whl` | 1,234,567 | `cd` |"]


def test_release_steps_can_be_repeated_alone_or_from_one_on() -> None:
    assert steps_of(None, None) == STEPS
    assert steps_of("sbom", None) == ("sbom",)
    assert steps_of(None, "docs") == ("docs", "table")
    with pytest.raises(Fault, match="no step push; the steps are tree, wheels"):
        steps_of("push", None)


def test_the_published_chart_names_images_of_the_registry() -> None:
    text = "repository: localhost/fairlead\nname: localhost/fairlead-servers:0.1.0\n"
    assert published(text, "registry.example.com/team") == (
        "repository: registry.example.com/team/fairlead\nname: registry.example.com/team/fairlead-servers:0.1.0\n"
    )


def test_an_archive_is_read_as_the_registry_would_have_it(tmp_path: Path) -> None:
    layer = archive_of({"bin/program": b"x" * 10_000, "etc/passwd": b"root"})
    manifest = [{"Config": "config.json", "Layers": ["layer.tar"]}]
    config = {"config": {"User": "65532:65532"}}
    files = {"manifest.json": json.dumps(manifest).encode(), "config.json": json.dumps(config).encode()}
    (tmp_path / "image.tar").write_bytes(archive_of({**files, "layer.tar": layer}))

    facts = image_facts("own", tmp_path / "image.tar")

    assert facts.paths == {"bin/program", "etc/passwd"}
    assert facts.user == "65532:65532"
    assert 0 < facts.compressed < 1000 < len(layer)
    packed = compressed(tmp_path / "image.tar", tmp_path / "packed.tar")
    with tarfile.open(packed) as tar:
        small = tar.extractfile("layer.tar")
        assert small is not None
        assert gzip.decompress(small.read()) == layer
    assert packed.read_bytes() == compressed(tmp_path / "image.tar", tmp_path / "again.tar").read_bytes()


def archive_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_debian_packages_of_an_image_are_components(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    (status / "zlib1g").write_text(
        "Package: zlib1g\nVersion: 1:1.3\nArchitecture: amd64\nDescription: a library\n more: x\n"
    )
    (component,) = debian(tmp_path)
    assert component["purl"] == "pkg:deb/debian/zlib1g@1:1.3?arch=amd64"


def test_links_of_the_charts_page_lead_to_the_files_of_its_release() -> None:
    text = "[Who](../../docs/a.md#part) ![Seen](icon.png) [Kinds](#kinds) [kind](https://kind.example)\n"
    environment = {"FAIRLEAD_REPOSITORY_URL": "https://host.example/us/fairlead"}
    assert page(text, environment, "1.2.3") == (
        "[Who](https://host.example/us/fairlead/blob/v1.2.3/docs/a.md#part) "
        "![Seen](https://host.example/us/fairlead/raw/v1.2.3/charts/fairlead/icon.png) "
        "[Kinds](#kinds) [kind](https://kind.example)\n"
    )
    assert page(text, {"FAIRLEAD_REPOSITORY_URL": ""}, "1.2.3") == text


def test_the_published_alerts_lead_to_the_page_of_their_release_where_there_is_a_site() -> None:
    text = (ROOT / ALERTS).read_text()
    site = {"FAIRLEAD_SITE_URL": "https://docs.example/fairlead/"}
    groups = yaml.safe_load(with_runbook_urls(text, site, "1.2.3"))["groups"]
    assert all(
        rule["annotations"]["runbook_url"]
        == f"https://docs.example/fairlead/1.2.3/operate/alerts/#{rule['alert'].lower()}"
        and "runbook" not in rule["annotations"]
        for group in groups
        for rule in group["rules"]
    )
    assert with_runbook_urls(text, {"FAIRLEAD_SITE_URL": ""}, "1.2.3") == text
