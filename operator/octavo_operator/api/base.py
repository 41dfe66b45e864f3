"""What all parts of the resource share: camelCase on the wire, immutable values, CEL rules beside the fields."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

GROUP = "octavo.dev"
VERSION = "v1alpha1"
KIND = "InferenceService"
PLURAL = "inferenceservices"


class Schema(BaseModel):
    """A part of the resource. Unknown fields are ignored: a newer CRD may be installed than this operator knows."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


def rule(expression: str, message: str) -> dict[str, str]:
    """Return one CEL validation; `message` is what a user reads, so it names the field and the remedy."""
    return {"rule": expression, "message": message}


def rules(*validations: dict[str, str]) -> dict[str, Any]:
    """Return the schema extension that carries CEL validations."""
    return {"x-kubernetes-validations": list(validations)}


QUANTITY_PATTERN = r"^([0-9]+|[0-9]*\.[0-9]+)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

Quantity = Annotated[
    str,
    BeforeValidator(str),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
        }
    ),
]

# Fractions are strings, as Kubernetes keeps floats out of its APIs.
Fraction = Annotated[str, Field(pattern=r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$")]
OpenFraction = Annotated[str, Field(pattern=r"^0?\.(0*[1-9][0-9]*)$", max_length=8)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
