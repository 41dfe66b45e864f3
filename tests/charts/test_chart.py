"""The chart renders what it promises, and refuses what it cannot do."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from octavo_operator.keys import KEY_SECRET
from tests.charts.rendering import CASES, CHART, GOLDEN, golden_text, helm, template

Object = dict[str, Any]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def operator_rules(*args: str) -> list[Object]:
    roles = [each for each in template(*args) if each["kind"] in ("Role", "ClusterRole")]
    return [rule for role in roles if "operator" in role["metadata"]["name"] for rule in role["rules"]]


def operator_pod(*args: str) -> Object:
    (deployment,) = of_kind(template(*args), "Deployment")
    spec: Object = deployment["spec"]["template"]["spec"]
    return spec


def test_chart_passes_helm_lint() -> None:
    result = helm("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("case", CASES)
def test_rendered_objects_equal_the_golden(case: str) -> None:
    golden = (GOLDEN / f"{case}.yaml").read_text(encoding="utf-8")
    assert golden_text(case) == golden, "changed on purpose? then run: python -m tests.charts.rendering"


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("replicaCount=-1", "/replicaCount"),
        ("replicaCount=two", "/replicaCount"),
        ("replicas=2", "'replicas' not allowed"),
        ("logLevel=loud", "/logLevel"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("image.digest=latest", "/image/digest"),
        ("watchNamespaces={Team_A}", "/watchNamespaces/0"),
    ],
)
def test_bad_value_is_refused_with_its_name(setting: str, complaint: str) -> None:
    result = helm("template", "octavo", str(CHART), "--set", setting)
    assert result.returncode != 0
    assert complaint in result.stderr


def test_operator_can_read_no_secret_but_its_own_key() -> None:
    rules = [rule for rule in operator_rules() if "secrets" in rule["resources"]]
    assert {verb for rule in rules for verb in rule["verbs"] if "resourceNames" not in rule} == {"create"}
    (own,) = [rule for rule in rules if "resourceNames" in rule]
    assert (own["resourceNames"], own["verbs"]) == ([KEY_SECRET], ["get"])


def test_operator_has_no_wildcard_right() -> None:
    for rule in operator_rules():
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]


def test_namespaced_mode_has_roles_only() -> None:
    objects = template(*CASES["namespaced"])
    assert not of_kind(objects, "ClusterRole")
    assert not of_kind(objects, "ClusterRoleBinding")
    assert {each["metadata"]["namespace"] for each in of_kind(objects, "Role")} == {
        "octavo-system",
        "team-a",
        "team-b",
    }


def test_crd_stays_when_the_release_goes() -> None:
    (crd,) = of_kind(template(), "CustomResourceDefinition")
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_crd_is_left_to_another_release_when_told_so() -> None:
    assert not of_kind(template("--set", "crds.install=false"), "CustomResourceDefinition")


def test_pods_satisfy_the_restricted_pod_security_standard() -> None:
    (test_pod,) = of_kind(template(), "Pod")
    for pod in (operator_pod(), test_pod["spec"]):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_metrics_service_does_not_select_the_test_pod() -> None:
    objects = template()
    (service,) = of_kind(objects, "Service")
    (pod,) = of_kind(objects, "Pod")
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_names_are_cut_at_63_characters() -> None:
    for each in template(release="a" * 53):
        if each["kind"] != "CustomResourceDefinition":
            assert len(each["metadata"]["name"]) <= 63
            assert not each["metadata"]["name"].endswith("-")


def test_every_template_is_named_for_a_component_and_its_kind() -> None:
    for path in (CHART / "templates").glob("*.yaml"):
        component, _, kind = path.stem.partition("-")
        assert component in ("operator", "user", "crd"), path.name
        assert kind, path.name


def test_every_value_has_a_comment_and_a_schema() -> None:
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    commented = commented_names(lines)
    values = yaml.safe_load("\n".join(lines))
    assert leaf_names(values, commented) <= commented


def commented_names(lines: list[str]) -> set[str]:
    """Return the names that follow a `# --` comment of one or more lines."""
    names, is_comment = set(), False
    for line in map(str.strip, lines):
        if line.startswith("# --"):
            is_comment = True
        elif not line.startswith("#"):
            if is_comment:
                names.add(line.partition(":")[0])
            is_comment = False
    return names


def leaf_names(values: Object, commented: set[str]) -> set[str]:
    """Return the names of all values that no comment on a parent covers."""
    names: set[str] = set()
    for name, value in values.items():
        if name not in commented and isinstance(value, dict) and value:
            names |= leaf_names(value, commented)
        else:
            names.add(name)
    return names


def test_defaults_satisfy_a_values_file_of_their_own(tmp_path: Path) -> None:
    copy = tmp_path / "values.yaml"
    copy.write_text((CHART / "values.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert template("--values", str(copy)) == template()
