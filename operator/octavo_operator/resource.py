"""A typed view of one InferenceService object."""

from dataclasses import dataclass

from octavo_operator.api.spec import Spec
from octavo_operator.kinds import INFERENCE_SERVICE, Object
from octavo_operator.revision import revision_of


@dataclass(frozen=True, slots=True)
class InferenceService:
    """What the renderers and planners need of the resource."""

    namespace: str
    name: str
    uid: str
    generation: int
    spec: Spec

    @classmethod
    def read(cls, body: Object) -> "InferenceService":
        """Read a resource. Raises pydantic's `ValidationError` for one that an older schema let through."""
        metadata = body["metadata"]
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            metadata.get("generation", 1),
            Spec.model_validate(body["spec"]),
        )

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def revision(self) -> str:
        return revision_of(self.spec)

    @property
    def url(self) -> str:
        """Base URL of the OpenAI API inside the cluster."""
        return f"http://{self.name}.{self.namespace}.svc/v1"

    def owner_reference(self) -> Object:
        """Return the reference by which Kubernetes deletes our objects with the service, the operator up or not."""
        return {
            "apiVersion": INFERENCE_SERVICE.api_version,
            "kind": INFERENCE_SERVICE.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
