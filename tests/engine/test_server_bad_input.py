"""Bad input gets a 400 that names the field, and never reaches the engine."""

import json
from typing import Any

import pytest

from octavo_engine.server.app import create_app
from octavo_engine.server.settings import ServerSettings

from .server_support import FakeEngine, FakeTokenizer, client_of, listening, make_app

COMPLETION = {"model": "fake", "prompt": "Hi"}
CHAT = {"model": "fake", "messages": [{"role": "user", "content": "Hi"}]}


async def refusal(path: str, body: Any, status: int = 400) -> dict[str, Any]:
    """The error object of an answer that must be `status` and must not have reached the engine."""
    engine = FakeEngine()
    async with client_of(make_app(engine)) as client:
        response = await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    assert engine.submitted == []
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", ""),
        ("prompt", []),
        ("prompt", [[]]),
        ("prompt", ["a", ""]),
        ("prompt", None),
        ("prompt", 5),
        ("prompt", {"a": 1}),
        ("prompt", [1, -1]),
        ("prompt", [1, 257]),
        ("prompt", [1, 2.5]),
        ("prompt", [1, "a"]),
        ("prompt", [2**63]),
        ("prompt", "\ud800"),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", 1.5),
        ("max_tokens", "5"),
        ("max_tokens", True),
        ("max_tokens", 10**30),
        ("temperature", -0.1),
        ("temperature", 2.1),
        ("temperature", "hot"),
        ("top_p", 0),
        ("top_p", 1.1),
        ("top_k", -2),
        ("top_k", 2**40),
        ("seed", 2**63),
        ("seed", "x"),
        ("n", 0),
        ("n", 17),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", ["a"] * 17),
        ("stop", 3),
        ("stop_token_ids", [257]),
        ("stop_token_ids", [-1]),
        ("ignore_eos", "yes"),
        ("stream", "yes"),
        ("stream_options", {"include_usage": True}),
        ("model", 3),
        ("logprobs", 0),
        ("logprobs", 1),
        ("echo", True),
        ("best_of", 2),
        ("suffix", "x"),
        ("logit_bias", {"1": 2}),
        ("presence_penalty", 0.5),
        ("temprature", 1),
        ("no_such_field", None),
    ],
)
async def test_completion_names_the_field_at_fault(field: str, value: Any) -> None:
    error = await refusal("/v1/completions", COMPLETION | {field: value})
    assert error["param"] == field
    assert field in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages", []),
        ("messages", "Hi"),
        ("messages", [{"role": "user"}]),
        ("messages", [{"content": "Hi"}]),
        ("messages", [{"role": "robot", "content": "Hi"}]),
        ("messages", [{"role": "user", "content": 3}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
        ("tool_calls", [{"role": "assistant", "content": "Hi", "tool_calls": [{"id": "1"}]}]),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("max_completion_tokens", 0),
    ],
)
async def test_chat_names_the_field_at_fault(field: str, value: Any) -> None:
    key = "messages" if field == "tool_calls" else field
    error = await refusal("/v1/chat/completions", CHAT | {key: value})
    assert error["param"] == field
    assert field in error["message"]


async def test_unknown_field_suggests_the_right_one() -> None:
    error = await refusal("/v1/completions", COMPLETION | {"temprature": 1})
    assert "did you mean 'temperature'" in error["message"]


async def test_two_different_limits_are_refused() -> None:
    error = await refusal("/v1/chat/completions", CHAT | {"max_tokens": 3, "max_completion_tokens": 4})
    assert error["param"] == "max_completion_tokens"


async def test_too_long_prompt_names_both_numbers() -> None:
    error = await refusal("/v1/completions", COMPLETION | {"prompt": "x" * 200})
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "prompt"
    assert "200" in error["message"]
    assert "128" in error["message"]


async def test_prompt_and_max_tokens_over_the_limit_name_both_numbers() -> None:
    error = await refusal("/v1/completions", COMPLETION | {"max_tokens": 127})
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "max_tokens"
    assert all(number in error["message"] for number in ("2 ", "127", "128"))


async def test_unknown_model_is_404() -> None:
    error = await refusal("/v1/completions", COMPLETION | {"model": "other"}, 404)
    assert error["code"] == "model_not_found"
    assert "'fake'" in error["message"]


async def test_field_with_a_value_that_changes_nothing_is_accepted() -> None:
    harmless = {"presence_penalty": 0.0, "logprobs": None, "echo": False, "user": "me", "metadata": {"a": "b"}}
    async with client_of(make_app(FakeEngine())) as client:
        assert (await client.post("/v1/completions", json=COMPLETION | harmless)).status_code == 200


async def test_model_without_chat_template_says_so() -> None:
    app = create_app(FakeEngine(), FakeTokenizer(has_chat_template=False), ServerSettings())
    async with client_of(app) as client:
        response = await client.post("/v1/chat/completions", json=CHAT)
    assert response.status_code == 400
    assert "no chat template" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"{", "application/json"),
        (b"", "application/json"),
        (b"[]", "application/json"),
        (b"null", "application/json"),
        (b'"text"', "application/json"),
        (b'{"model": "fake", "prompt": "\xff"}', "application/json"),
        (b'{"model": "fake", "prompt": "Hi", "temperature": NaN}', "application/json"),
        (b'{"model": "fake", "prompt": "Hi", "temperature": 1e999}', "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"model=fake&prompt=Hi", "application/x-www-form-urlencoded"),
        (b'{"model": "fake", "prompt": "Hi"}', "text/plain"),
    ],
)
async def test_malformed_body_is_400(content: bytes, content_type: str) -> None:
    async with client_of(make_app(FakeEngine())) as client:
        response = await client.post("/v1/completions", content=content, headers={"content-type": content_type})
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_body_over_the_limit_is_413_declared_or_chunked() -> None:
    async def chunks() -> Any:
        for _ in range(20):
            yield b" " * 100

    async with listening(make_app(FakeEngine(), max_request_bytes=1024)) as client:
        declared = await client.post("/v1/completions", content=b" " * 1025)
        chunked = await client.post("/v1/completions", content=chunks(), headers={"content-type": "application/json"})
    assert declared.status_code == chunked.status_code == 413
    for response in (declared, chunked):
        assert "--max-request-bytes" in response.json()["error"]["message"]


async def test_unknown_path_and_method_have_the_same_error_shape() -> None:
    async with client_of(make_app(FakeEngine())) as client:
        assert (await client.get("/v1/nothing")).json()["error"]["type"] == "not_found_error"
        assert (await client.get("/v1/completions")).status_code == 405


async def test_unforeseen_failure_is_500_without_details() -> None:
    engine = FakeEngine()
    engine.generate = None  # type: ignore[assignment,method-assign]
    async with client_of(make_app(engine)) as client:
        response = await client.post("/v1/completions", json=COMPLETION)
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "internal error; the server's log has the details"
