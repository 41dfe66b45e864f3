"""The example services say only what the resource knows, and the README lists them all."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from octavo_operator.api.spec import Spec

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted((ROOT / "manifests").glob("*.yaml"))


def load(path: Path) -> dict[str, Any]:
    resource: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return resource


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_example_has_no_field_that_the_resource_does_not_have(path: Path) -> None:
    spec = load(path)["spec"]
    assert Spec.model_validate(spec).model_dump(by_alias=True, exclude_unset=True) == spec


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_example_begins_by_saying_what_it_is_for(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


def test_readme_lists_every_example() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in MANIFESTS if f"(manifests/{path.name})" not in readme] == []


def test_production_profiles_of_every_kind_are_there() -> None:
    profiles = {load(path)["spec"].get("engine", {}).get("profile") for path in MANIFESTS}
    assert profiles >= {"SingleGPU", "MultiGPU", "Chat", "LongDocument"}
