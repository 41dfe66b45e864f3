"""Whether a live object says what was rendered."""

from typing import Any

import pytest

from octavo_operator.drift import is_applied, quantity


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": "c"}}, {"a": {"b": "c", "defaulted": True}}),
        ({"args": ["--x"]}, {"args": ["--x"]}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B"}, {"name": "A", "value": "1"}]}),
        ({"requests": {"cpu": "1000m", "memory": "1Gi"}}, {"requests": {"cpu": "1", "memory": "1024Mi"}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"emptyDir": {}, "flag": False, "value": ""}, {}),
    ],
)
def test_what_others_add_and_the_server_fills_in_is_no_drift(desired: Any, live: Any) -> None:
    assert is_applied(desired, live)


@pytest.mark.parametrize(
    ("desired", "live"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {}),
        ({"a": {"b": 1}}, {"a": None}),
        ({"args": ["--x"]}, {"args": ["--x", "--y"]}),
        ({"args": ["--x", "--y"]}, {"args": ["--y", "--x"]}),
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}]}),
        ({"env": [{"name": "A"}]}, {"env": []}),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
        ({"requests": {"cpu": "1"}}, {}),
        ({"flag": False}, {"flag": True}),
    ],
)
def test_what_differs_is_drift(desired: Any, live: Any) -> None:
    assert not is_applied(desired, live)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("0.5", 0.5), ("500m", 0.5), ("1k", 1000), ("1Ki", 1024), ("2Gi", 2 * 1024**3), ("1.5G", 1.5e9)],
)
def test_quantities_are_numbers(text: str, number: float) -> None:
    assert float(quantity(text)) == number
