"""The engine pod: passes the `restricted` Pod Security standard, and needs nothing of the cluster but its volumes."""

from typing import Any

from octavo_operator import labels
from octavo_operator.api.engine import EnvVar
from octavo_operator.api.placement import AcceleratorSpec, ResourceList, ResourcesSpec
from octavo_operator.api.spec import Spec
from octavo_operator.kinds import Object
from octavo_operator.render.flags import MODELS_MOUNT, PORT, render_flags
from octavo_operator.render.secret import secret_name
from octavo_operator.resource import InferenceService
from octavo_operator.settings import Settings

USER_ID = 65532
CACHE_MOUNT = "/var/cache/octavo"
CREDENTIALS_MOUNT = "/var/run/octavo/credentials"

# Time for routers to notice that a pod is going, during which it still takes requests.
PRE_STOP_SECONDS = 5
# Time for the engine to end after its last stream.
EXIT_SECONDS = 15
# The longest that a model may take to load before the pod is started anew.
STARTUP_SECONDS = 3600
STARTUP_PERIOD_SECONDS = 2

CPU_RESOURCES = ResourcesSpec(
    requests=ResourceList(cpu="1", memory="2Gi"),
    limits=ResourceList(memory="4Gi"),
)
ACCELERATOR_RESOURCES = ResourcesSpec(requests=ResourceList(cpu="2", memory="8Gi"))


def render_pod_template(service: InferenceService, revision: str, settings: Settings) -> Object:
    """Return the template of a revision's pods."""
    return {
        "metadata": {
            "labels": {**labels.owned(service.name), labels.REVISION: revision, labels.SERVING: "true"},
            "annotations": {"kubectl.kubernetes.io/default-container": "engine"},
        },
        "spec": _pod_spec(service, revision, settings),
    }


def _pod_spec(service: InferenceService, revision: str, settings: Settings) -> Object:
    spec = service.spec
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": PRE_STOP_SECONDS + spec.engine.drain_timeout_seconds + EXIT_SECONDS,
        "containers": [_container(service, settings)],
        "volumes": _volumes(spec),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {labels.SERVICE: service.name, labels.REVISION: revision}},
            }
        ],
        **_scheduling(spec),
    }


def _container(service: InferenceService, settings: Settings) -> Object:
    spec = service.spec
    return {
        "name": "engine",
        "image": spec.engine.image or settings.engine_image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": render_flags(service),
        "env": _env(service),
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "resources": _resources(spec),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts(spec),
        "startupProbe": _probe("/health/ready", STARTUP_PERIOD_SECONDS, STARTUP_SECONDS // STARTUP_PERIOD_SECONDS),
        "livenessProbe": _probe("/health/live", period=10, failures=3),
        "readinessProbe": _probe("/health/ready", period=2, failures=3),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probe(path: str, period: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _env(service: InferenceService) -> list[Object]:
    token = {"secretKeyRef": {"name": secret_name(service), "key": labels.TOKEN_KEY}}
    env: list[Object] = [
        {"name": "OCTAVO_ADMIN_TOKEN", "valueFrom": token},
        {"name": "OCTAVO_CACHE", "value": CACHE_MOUNT},
        {"name": "HOME", "value": CACHE_MOUNT},
        {"name": "HF_HOME", "value": f"{CACHE_MOUNT}/huggingface"},
    ]
    if service.spec.model.credentials:
        env.append({"name": "HF_TOKEN_PATH", "value": f"{CREDENTIALS_MOUNT}/token"})
    return env + [_user_env(variable) for variable in service.spec.engine.env]


def _user_env(variable: EnvVar) -> Object:
    if variable.secret_key_ref is None:
        return {"name": variable.name, "value": variable.value or ""}
    reference = {"name": variable.secret_key_ref.name, "key": variable.secret_key_ref.key}
    return {"name": variable.name, "valueFrom": {"secretKeyRef": reference}}


def _resources(spec: Spec) -> Object:
    accelerator = spec.accelerator
    defaults = ACCELERATOR_RESOURCES if accelerator.count else CPU_RESOURCES
    chosen = (spec.resources or defaults).model_dump(exclude_none=True)
    if accelerator.count:
        chosen["limits"][accelerator.resource_name] = str(accelerator.count)
    return {name: amounts for name, amounts in chosen.items() if amounts}


def _volumes(spec: Spec) -> list[Object]:
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {}}, {"name": "cache", "emptyDir": {}}]
    if spec.model.uri.startswith("pvc://"):
        claim = spec.model.uri.removeprefix("pvc://").partition("/")[0]
        volumes.append({"name": "model", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
    if spec.model.credentials:
        reference = spec.model.credentials.secret_ref
        source = {"secret": {"name": reference.name, "items": [{"key": reference.key, "path": "token"}]}}
        volumes.append({"name": "credentials", "projected": {"sources": [source], "defaultMode": 0o440}})
    return volumes


def _mounts(spec: Spec) -> list[Object]:
    mounts: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}, {"name": "cache", "mountPath": CACHE_MOUNT}]
    if spec.model.uri.startswith("pvc://"):
        mounts.append({"name": "model", "mountPath": MODELS_MOUNT, "readOnly": True})
    if spec.model.credentials:
        mounts.append({"name": "credentials", "mountPath": CREDENTIALS_MOUNT, "readOnly": True})
    return mounts


def _scheduling(spec: Spec) -> dict[str, Any]:
    scheduling, accelerator = spec.scheduling, spec.accelerator
    selector = dict(scheduling.node_selector)
    if accelerator.product:
        selector[f"{accelerator.resource_name}.product"] = accelerator.product
    tolerations = [t.model_dump(by_alias=True, exclude_none=True) for t in scheduling.tolerations]
    if accelerator.count:
        tolerations.append(_accelerator_toleration(accelerator))
    fields = {
        "nodeSelector": selector,
        "tolerations": tolerations,
        "priorityClassName": scheduling.priority_class_name,
        "runtimeClassName": scheduling.runtime_class_name,
    }
    return {name: value for name, value in fields.items() if value}


def _accelerator_toleration(accelerator: AcceleratorSpec) -> Object:
    """Nodes with accelerators are commonly tainted with the resource's name, to keep other work away."""
    return {"key": accelerator.resource_name, "operator": "Exists", "effect": "NoSchedule"}
