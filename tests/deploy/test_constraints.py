"""The committed versions install beside both builds of torch: the one for CPUs and the one with CUDA."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CONSTRAINTS = Path(__file__).parents[2] / "deploy" / "constraints.txt"

TORCH = "2.13.0"
CUDA_BUILD_WANTS = ("nvidia-cuda-cupti==13.0.85.*", "cuda-bindings>=13.0.3,<14")
"""What torch's CUDA build of that version asks of packages that other parts of Argus pull in as well: its own metadata
and that of cuda-toolkit 13.0.3. `pip install torch` brings this build wherever no other index is named."""

CUPTI_WANTS = {"13.0.1": "nvidia-cuda-cupti~=13.0"}
"""What cupti-python asks, from its metadata; 13.4.0 asks ~=13.4, which no installation with that torch can have."""


def pinned() -> dict[str, str]:
    """Package to version."""
    pins = [Requirement(line) for line in CONSTRAINTS.read_text().split("\n") if line]
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}


def test_every_package_of_an_extra_has_a_version() -> None:
    """Else what CI and the image install changes by itself."""
    project = tomllib.loads((CONSTRAINTS.parents[1] / "pyproject.toml").read_text())["project"]
    wanted = {Requirement(text).name for texts in project["optional-dependencies"].values() for text in texts}
    pins = {canonicalize_name(name) for name in pinned()}
    assert {canonicalize_name(name) for name in wanted} - pins == {project["name"]}


def test_the_pins_install_beside_torchs_cuda_build() -> None:
    pins = pinned()
    assert pins["torch"] == TORCH, "look up what the new version's CUDA build wants"
    assert pins["cupti-python"] in CUPTI_WANTS, "look up what the new version wants"
    for wanted in map(Requirement, (*CUDA_BUILD_WANTS, CUPTI_WANTS[pins["cupti-python"]])):
        assert wanted.specifier.contains(pins[wanted.name]), wanted
