"""The operator's settings."""

import pytest
from pydantic import ValidationError

from octavo_operator.settings import Settings


def test_namespaces_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_NAMESPACES", "team-a, team-b")
    assert Settings().namespaces == ("team-a", "team-b")


def test_no_namespaces_are_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_NAMESPACES", "")
    assert Settings().namespaces == ()


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_PORT", "many")
    with pytest.raises(ValidationError, match="port"):
        Settings()
