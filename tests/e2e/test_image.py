"""The image of operator and gateway: all of its modules and verbs work in it, and nobody gets a shell there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from cluster_questions import needs
from installation import TAG, kubectl, load_images, missing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600, func_only=True)]
MODULES = """
import importlib, pkgutil, sys
OF_OTHER_EXTRAS = {"mcp", "mcp_types", "numpy", "onnxruntime", "tokenizers", "lancedb", "pyarrow", "PIL", "trafilatura",
                   "ruamel", "uv", "lxml"}
wrong = []
def look(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OF_OTHER_EXTRAS:
            wrong.append(f"{name}: {error}")
        return
    for each in pkgutil.iter_modules(getattr(module, "__path__", ()), name + "."):
        if not each.name.endswith("__main__"):
            look(each.name)
for package in "api operator mcp formats tools kube gateway rest llm client cli search".split():
    look("fairlead_" + package)
print(len(sys.modules), "modules;", wrong or "all is well")
"""
VERBS = """
import subprocess
from fairlead_cli.tree import tree
verbs = [name for name, _ in tree().verbs()]
def fails(name):
    return subprocess.run(["fairlead", *name.split(), "--help"], capture_output=True).returncode
wrong = [name for name in verbs if fails(name)]
print(len(verbs), "verbs;", wrong or "all is well")
"""


@pytest.fixture
def namespace_of_image() -> Iterator[str]:
    needs(missing())
    load_images("fairlead")
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


def _printed(namespace: str, program: str) -> str:
    """What a program of Python prints in a pod of the image."""
    pod = f"look-{uuid.uuid4().hex[:6]}"
    image = f"localhost/fairlead:{TAG}"
    words = ("run", pod, "-n", namespace, f"--image={image}", "--image-pull-policy=Never", "--restart=Never")
    kubectl(*words, "--command", "--", "python", "-c", program)
    kubectl(
        "wait", "-n", namespace, f"pod/{pod}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=240s", seconds=250
    )
    return kubectl("logs", "-n", namespace, pod)


def test_every_module_and_every_verb_works_in_the_image_and_no_shell_does(namespace_of_image: str) -> None:
    assert _printed(namespace_of_image, MODULES).strip().endswith("all is well")
    assert _printed(namespace_of_image, VERBS).strip().endswith("all is well")
    shells = "import glob; print([p for p in glob.glob('/*bin/*') + glob.glob('/usr/*bin/*') if 'python' not in p])"
    assert _printed(namespace_of_image, shells).strip() == "[]"
