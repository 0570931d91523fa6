"""Step of a release that publishes. In this dry run, to a registry on 127.0.0.1, signed with a temporary key."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from releasing import chart
from releasing.artefacts import IMAGE_BOUND, Artefact
from releasing.faults import Fault
from releasing.images import IMAGES, compressed
from releasing.packages import compiled_wheel
from releasing.versions import Version
from releasing.workplace import Workplace, first_answer, go_program, helm, running
from wheels import free_port

CHARTS: Final = "charts"
"""Path of the chart's repository below that of the images."""
STARTS: Final = 30.0
"""Maximum seconds until a registry answers."""
CONFIGURATION: Final = """version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "{address}"}}
"""


@dataclass(frozen=True)
class Registry:
    """A registry that serves HTTP on 127.0.0.1."""

    workplace: Workplace
    address: str

    def crane(self, *words: str | Path) -> str:
        """Run crane and return its standard output. Raises Fault."""
        return self.workplace.run(go_program(self.workplace, "crane"), *words, "--insecure").strip()

    def pushed(self, name: str, archive: Path, tag: str) -> str:
        """Push a docker-archive and return its reference by digest. Raises Fault."""
        packed = compressed(archive, self.workplace.folder("packed") / archive.name)
        self.crane("push", packed, f"{self.address}/{name}:{tag}")
        return self.reference(name, tag)

    def reference(self, name: str, tag: str) -> str:
        """Reference by digest of the image or chart with a tag. Raises Fault if there is none."""
        return f"{self.address}/{name}@{self.crane('digest', f'{self.address}/{name}:{tag}')}"

    def artefact(self, name: str, reference: str) -> Artefact:
        """Size of the layers and digest according to the registry. Raises Fault."""
        layers = json.loads(self.crane("manifest", reference))["layers"]
        return Artefact(name, sum(layer["size"] for layer in layers), reference.rpartition(":")[2])


@dataclass(frozen=True)
class Signer:
    """A temporary key pair, and a signing configuration without online services."""

    workplace: Workplace
    folder: Path

    @classmethod
    def made(cls, workplace: Workplace) -> Signer:
        """Create a new key pair. Raises Fault."""
        signer = cls(workplace, workplace.folder("keys", empty=True))
        signer.run("generate-key-pair", "--output-key-prefix", "own")
        signer.run("generate-key-pair", "--output-key-prefix", "other")
        signer.run("signing-config", "create", "--out", "none.json")
        return signer

    def attempt(self, *words: str | Path) -> bool:
        """Whether a command of cosign succeeds."""
        program = go_program(self.workplace, "cosign")
        return not self.workplace.attempt(program, *words, cwd=self.folder, COSIGN_PASSWORD="").returncode

    def run(self, *words: str | Path) -> None:
        """Run a command of cosign. Raises Fault if it fails."""
        self.workplace.run(go_program(self.workplace, "cosign"), *words, cwd=self.folder, COSIGN_PASSWORD="")

    def sign(self, reference: str) -> None:
        """Sign an image or chart in the registry. Raises Fault."""
        self.run("sign", *self._with_key(), "--allow-insecure-registry", "--yes", reference)

    def attest(self, reference: str, sbom: Path) -> None:
        """Attach an SBOM. Raises Fault."""
        words: list[str | Path] = [
            "--type",
            "cyclonedx",
            "--predicate",
            sbom,
            "--allow-insecure-registry",
            "--yes",
            reference,
        ]
        self.run("attest", *self._with_key(), *words)

    def verifies(self, reference: str, key: str = "own") -> bool:
        """Whether the registry has a signature by this key."""
        return self.attempt("verify", *self._public(key), "--allow-insecure-registry", reference)

    def sign_file(self, file: Path) -> bool:
        """Sign a file, and return whether its signature verifies. Raises Fault."""
        bundle = self.folder / f"{file.name}.sigstore.json"
        self.run("sign-blob", *self._with_key(), "--bundle", bundle, "--yes", file)
        return self.attempt("verify-blob", *self._public("own"), "--bundle", bundle, file)

    def _with_key(self) -> list[str]:
        return ["--key", "own.key", "--signing-config", "none.json"]

    def _public(self, key: str) -> list[str]:
        return ["--key", f"{key}.pub", "--insecure-ignore-tlog=true"]

    def attested(self, reference: str) -> bool:
        """Whether the registry has an SBOM that is signed with this key."""
        words = ["verify-attestation", *self._public("own"), "--type", "cyclonedx"]
        return self.attempt(*words, "--allow-insecure-registry", reference)


@contextmanager
def registry(workplace: Workplace) -> Iterator[Registry]:
    """The registry of this run, on the same port as in earlier steps. Raises Fault if it does not answer."""
    folder = workplace.folder("registry")
    port = folder / "port"
    if not port.exists():
        port.write_text(str(free_port()))
    address = f"127.0.0.1:{port.read_text()}"
    configuration = folder / "config.yml"
    configuration.write_text(CONFIGURATION.format(folder=folder / "storage", address=address))
    words: list[str | Path] = [go_program(workplace, "registry"), "serve", configuration]
    log = workplace.folder("log") / "registry.log"
    with running(words, log, OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="none") as process:
        if first_answer(process, lambda: _answers(address), STARTS):
            yield Registry(workplace, address)
            return
    raise Fault(f"the registry on {address} does not answer: {log} says why")


def _answers(address: str) -> bool:
    """Return True if the registry answers, else raise OSError."""
    urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
    return True


def publish(workplace: Workplace, version: Version) -> list[str]:
    """Push, sign by digest and verify images, chart and SBOM. Unsigned content must fail the verification. Raises
    Fault.
    """
    signer = Signer.made(workplace)
    sbom = workplace.artefact("sbom", "fairlead-image.cdx.json")
    with registry(workplace) as served:
        package = chart.package(workplace, served.address, version, workplace.folder("chart", empty=True))
        again = chart.package(workplace, served.address, version, workplace.folder("chart-again", empty=True))
        if package.read_bytes() != again.read_bytes():
            raise Fault("packaging the chart twice gives different bytes")
        archives = {name: workplace.artefact("images", f"{name}.tar") for name in IMAGES}
        references = [served.pushed(name, archive, version.chart) for name, archive in archives.items()]
        workplace.run(helm(workplace), "push", package, f"oci://{served.address}/{CHARTS}", "--plain-http")
        references.append(served.reference(f"{CHARTS}/fairlead", version.chart))
        for reference in references:
            if signer.verifies(reference):
                raise Fault(f"{reference} verifies before anybody signed it: the verification proves nothing")
            signer.sign(reference)
            if not signer.verifies(reference):
                raise Fault(f"{reference} does not verify though it was signed: {workplace.log} says why")
        if signer.verifies(references[0], key="other"):
            raise Fault(f"{references[0]} verifies with a key that did not sign it: the verification proves nothing")
        signer.attest(references[0], sbom)
        if not signer.attested(references[0]):
            raise Fault(f"the SBOM of {references[0]} does not verify: {workplace.log} says why")
        size = served.artefact("fairlead", references[0]).size
        if size > IMAGE_BOUND:
            raise Fault(f"the registry has {size:,} bytes of {references[0]}, over the bound of {IMAGE_BOUND:,}")
    wheel = compiled_wheel(workplace)
    if not signer.sign_file(wheel):
        raise Fault(f"{wheel.name} does not verify though it was signed: {workplace.log} says why")
    return [
        *(f"signed and verified: {reference}" for reference in references),
        "not verified, as it has to be: all three before they were signed, and the image with another key",
        f"SBOM attached to the image; {wheel.name} signed",
    ]
