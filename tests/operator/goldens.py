"""Compares rendered objects with the files in `goldens/`; `python -m tests.operator.goldens` writes them anew."""

from pathlib import Path

import yaml

from octavo_operator.kinds import Object
from octavo_operator.render.deployment import render_deployment
from octavo_operator.render.pdb import render_pdb
from octavo_operator.render.secret import render_secret
from octavo_operator.render.service import render_service
from octavo_operator.resource import InferenceService
from octavo_operator.settings import Settings
from tests.operator.builders import service

FOLDER = Path(__file__).parent / "goldens"
SETTINGS = Settings(engine_image="example.org/octavo-engine:1.0")

CPU = service(
    "chat",
    engine={"kvCacheMemoryGiB": "0.5", "maxModelLen": 2048, "args": ["--max-num-waiting=64"]},
    resources={"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "3Gi"}},
    autoscaling={"minReplicas": 1, "maxReplicas": 3},
)
GPU = service(
    "documents",
    model={
        "uri": "hf://org/model-7b",
        "revision": "v1.2",
        "servedName": "model-7b",
        "credentials": {"secretRef": {"name": "hub"}},
    },
    engine={"profile": "LongDocument", "gpuMemoryUtilization": "0.90", "dtype": "bfloat16"},
    accelerator={"count": 1, "product": "NVIDIA-H200"},
    scheduling={
        "nodeSelector": {"pool": "inference"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "inference", "effect": "NoSchedule"}],
        "priorityClassName": "high",
    },
    replicas=2,
)
CASES = {"cpu": CPU, "gpu": GPU}


def render_all(of: InferenceService) -> list[Object]:
    """Return every child of a service."""
    return [render_secret(of, "token"), render_service(of), render_pdb(of), render_deployment(of, SETTINGS)]


def as_yaml(of: InferenceService) -> str:
    return yaml.safe_dump_all(render_all(of), sort_keys=False, width=120)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for case, of in CASES.items():
        (FOLDER / f"{case}.yaml").write_text(as_yaml(of), encoding="utf-8")
