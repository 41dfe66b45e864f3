"""The CustomResourceDefinition, derived from the models. `python -m octavo_operator.api.crd` prints it or writes it."""

import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from octavo_operator.api.base import GROUP, KIND, PLURAL, VERSION, rule
from octavo_operator.api.spec import Spec
from octavo_operator.api.status import Status

# Keywords of JSON Schema that a structural schema may carry over as they are.
KEPT = (
    "type",
    "format",
    "description",
    "default",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "required",
    "maxProperties",
    "x-kubernetes-int-or-string",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)

PRINTER_COLUMNS: list[dict[str, Any]] = [
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.uri"},
    {"name": "Ready", "type": "string", "jsonPath": ".status.ready", "description": "Ready and desired replicas"},
    {"name": "KV", "type": "string", "jsonPath": ".status.autoscaling.kvCacheUtilization"},
    {"name": "Waiting", "type": "integer", "jsonPath": ".status.autoscaling.waiting"},
    {"name": "Status", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].reason'},
    {"name": "URL", "type": "string", "jsonPath": ".status.url", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

NAME_RULE = rule(
    "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    "metadata.name: at most 63 characters, lower-case letters, digits and '-', beginning with a letter: "
    "a Service and labels are named after it",
)


def structural_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the model as a structural OpenAPI v3 schema: no references, no nullable unions, no titles."""
    document = model.model_json_schema(by_alias=True)
    return _structural(document, document.get("$defs", {}))


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    node = _resolve(node, definitions)
    result = {keyword: node[keyword] for keyword in KEPT if node.get(keyword) not in (None, [], {})}
    if node.get("x-kubernetes-int-or-string"):
        return result | {"anyOf": node["anyOf"]}
    if "properties" in node:
        result["properties"] = {
            name: _structural(child, definitions) for name, child in sorted(node["properties"].items())
        }
    if isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    if "items" in node:
        result["items"] = _structural(node["items"], definitions)
    return _with_default_object(result)


def _with_default_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Default an absent object to its own fields' defaults: rules on it are checked against just those."""
    if schema.get("type") != "object" or not schema.pop("default", None):
        return schema
    defaults = {name: child["default"] for name, child in schema.get("properties", {}).items() if "default" in child}
    return schema | {"default": defaults} if defaults else schema


def _resolve(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference, and take an optional field's one real type; what stands beside either wins."""
    beside = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "allOf")}
    if "$ref" in node:
        return _resolve(definitions[node["$ref"].rsplit("/", 1)[1]], definitions) | beside
    if "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
        (only,) = [option for option in node["anyOf"] if option.get("type") != "null"]
        return _resolve(only, definitions) | beside
    return node


def custom_resource_definition() -> dict[str, Any]:
    """Return the whole CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{PLURAL}.{GROUP}",
            "annotations": {"helm.sh/resource-policy": "keep"},
            "labels": {"app.kubernetes.io/name": "octavo", "app.kubernetes.io/part-of": "octavo"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["infsvc"],
                "categories": ["inference"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": PRINTER_COLUMNS,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A large language model served on Kubernetes.",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": structural_schema(Spec),
                    "status": structural_schema(Status),
                },
                "x-kubernetes-validations": [NAME_RULE],
            }
        },
    }


def as_yaml() -> str:
    """Return the file that the chart ships."""
    return yaml.safe_dump(custom_resource_definition(), sort_keys=False, width=120)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(as_yaml(), encoding="utf-8")
    else:
        sys.stdout.write(as_yaml())
