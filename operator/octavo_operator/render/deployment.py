"""The Deployment of one revision. Its template never changes; the operator moves replicas between revisions."""

from octavo_operator import labels
from octavo_operator.kinds import Object
from octavo_operator.render.metadata import metadata
from octavo_operator.render.pod import render_pod_template
from octavo_operator.resource import InferenceService
from octavo_operator.revision import digest
from octavo_operator.settings import Settings


def deployment_name(service: InferenceService, revision: str) -> str:
    """Return the name of a revision's Deployment."""
    return f"{service.name}-{revision}"


def render_deployment(service: InferenceService, settings: Settings) -> Object:
    """Return the Deployment of the spec's revision, without replicas: those have another field manager."""
    revision = service.revision
    spec = {
        "selector": {"matchLabels": {labels.SERVICE: service.name, labels.REVISION: revision}},
        # Never an extra pod that waits for the accelerator which its predecessor holds.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "revisionHistoryLimit": 1,
        "template": render_pod_template(service, revision, settings),
    }
    about = metadata(service, deployment_name(service, revision), **{labels.REVISION: revision})
    about["annotations"] = {labels.TEMPLATE_HASH: digest(spec)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec}
