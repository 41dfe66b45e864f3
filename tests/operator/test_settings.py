"""The operator's settings."""

import pytest

from octavo_operator.main import main
from octavo_operator.settings import Settings


def test_namespaces_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_NAMESPACES", "team-a, team-b")
    assert Settings().namespaces == ("team-a", "team-b")


def test_no_namespaces_are_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_NAMESPACES", "")
    assert Settings().namespaces == ()


def test_a_service_called_octavo_changes_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCTAVO_PORT", "tcp://10.96.0.17:80")
    assert Settings().port == 8080


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"OCTAVO_PORT": "many"}, "OCTAVO_PORT: Input should be a valid integer"),
        ({"OCTAVO_LOG_LEVEL": "loud"}, "OCTAVO_LOG_LEVEL: String should match"),
        ({"KUBECONFIG": "/nowhere"}, "Run it in a pod, or set KUBECONFIG"),
    ],
)
def test_a_process_that_cannot_start_says_what_to_set(
    environment: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit, match=words):
        main()
