"""A revision: the part of a spec that decides what an engine pod is."""

import hashlib
import json
from typing import Any

from octavo_operator.api.spec import Spec

# Changing anything else (replicas, suspend, autoscaling) replaces no pod.
POD_FIELDS = {"model", "engine", "accelerator", "resources", "scheduling"}


def digest(value: Any) -> str:
    """Return ten hexadecimal digits that stand for a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:10]


def revision_of(spec: Spec) -> str:
    """Return the name of a spec's revision.

    It comes from the spec and not from the rendered pod, so that an upgraded operator that renders differently
    restarts no engine; defaults are left out, so that a new field changes no name.
    """
    return digest(spec.model_dump(mode="json", by_alias=True, include=POD_FIELDS, exclude_defaults=True))
