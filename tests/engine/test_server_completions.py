"""What /v1/completions and /v1/chat/completions answer, streamed and not."""

from typing import Any

import httpx
import orjson
import pytest

from octavo_engine.messages import TokenEvent

from .server_support import EOS, FakeEngine, client_of, eventually, listening, make_app, service_of

COMPLETION = {"model": "fake", "prompt": "Hi", "max_tokens": 100}
CHAT = {"model": "fake", "messages": [{"role": "user", "content": "Hi"}]}


async def post(engine: FakeEngine, path: str, body: dict[str, Any], **settings: Any) -> httpx.Response:
    async with client_of(make_app(engine, **settings)) as client:
        return await client.post(path, json=body)


def events(response: httpx.Response) -> list[Any]:
    """The JSON of each event; checks the frames and the end."""
    frames = response.text.split("\n\n")
    assert frames[-2:] == ["data: [DONE]", ""]
    assert all(frame.startswith("data: ") for frame in frames[:-1])
    return [orjson.loads(frame[6:]) for frame in frames[:-2]]


def streamed_text(chunks: list[Any], choice: int = 0) -> str:
    return "".join(part["text"] for chunk in chunks for part in chunk["choices"] if part["index"] == choice)


async def test_completion_returns_text_usage_and_the_reason_of_its_end() -> None:
    answer = (await post(FakeEngine(), "/v1/completions", COMPLETION)).json()
    assert answer["object"] == "text_completion"
    assert answer["id"].startswith("cmpl-")
    assert answer["choices"] == [
        {"index": 0, "text": "Hello, world.", "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    ]
    assert answer["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 14,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_chat_returns_a_message_of_the_assistant() -> None:
    engine = FakeEngine()
    answer = (await post(engine, "/v1/chat/completions", CHAT)).json()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Hello, world.", "refusal": None}
    assert bytes(engine.submitted[0][0]) == b"user: Hi\n"


async def test_chat_without_a_limit_may_use_what_the_prompt_leaves() -> None:
    engine = FakeEngine()
    await post(engine, "/v1/chat/completions", CHAT)
    prompt, params = engine.submitted[0]
    assert params.max_tokens == engine.ready.max_model_len - len(prompt)


async def test_completion_ends_by_length() -> None:
    answer = (await post(FakeEngine(), "/v1/completions", COMPLETION | {"max_tokens": 5})).json()
    assert answer["choices"][0]["text"] == "Hello"
    assert answer["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("tokens_per_event", [1, 3, 100])
async def test_stop_string_across_tokens_never_leaks_and_ends_the_request(tokens_per_event: int) -> None:
    engine = FakeEngine(tokens_per_event=tokens_per_event)
    body = COMPLETION | {"stop": ["nothing", ", wo"]}
    answer = (await post(engine, "/v1/completions", body)).json()
    chunks = events(await post(engine, "/v1/completions", body | {"stream": True}))
    choice = answer["choices"][0]
    assert (choice["text"], choice["finish_reason"], choice["stop_reason"]) == ("Hello", "stop", ", wo")
    assert streamed_text(chunks) == "Hello"
    assert answer["usage"]["completion_tokens"] == 9
    assert engine.num_open == 0


async def test_stop_string_is_shown_when_asked_for() -> None:
    body = COMPLETION | {"stop": ",", "include_stop_str_in_output": True}
    answer = (await post(FakeEngine(), "/v1/completions", body)).json()
    assert answer["choices"][0]["text"] == "Hello,"


async def test_stop_token_asked_for_is_the_stop_reason() -> None:
    body = COMPLETION | {"stop_token_ids": [EOS]}
    answer = (await post(FakeEngine(), "/v1/completions", body)).json()
    assert answer["choices"][0]["stop_reason"] == EOS


@pytest.mark.parametrize("stop", [None, "zzzz", ["d.x", "world.."]])
async def test_streamed_text_equals_the_whole_text(stop: Any) -> None:
    chunks = events(await post(FakeEngine(), "/v1/completions", COMPLETION | {"stop": stop, "stream": True}))
    assert streamed_text(chunks) == "Hello, world."
    assert [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]] == [
        "stop"
    ]
    assert all("usage" not in chunk for chunk in chunks)


async def test_stream_has_no_chunk_without_content_before_its_end() -> None:
    body = CHAT | {"stream": True, "stop": ["xxxxxx"]}
    chunks = events(await post(FakeEngine(), "/v1/chat/completions", body))
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"]["role"] == "assistant"
    assert all(choice["delta"].get("content") or choice["finish_reason"] for choice in choices)
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello, world."


async def test_usage_ends_the_stream_only_when_asked_for() -> None:
    body = COMPLETION | {"stream": True, "stream_options": {"include_usage": True}}
    last = events(await post(FakeEngine(), "/v1/completions", body))[-1]
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 14


async def test_each_prompt_gets_n_choices_in_order() -> None:
    engine = FakeEngine()
    body = COMPLETION | {"prompt": ["a", "bc"], "n": 2, "seed": 7}
    answer = (await post(engine, "/v1/completions", body)).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert {choice["text"] for choice in answer["choices"]} == {"Hello, world."}
    assert [bytes(prompt) for prompt, _ in engine.submitted] == [b"a", b"a", b"bc", b"bc"]
    assert answer["usage"]["prompt_tokens"] == 3
    assert answer["usage"]["completion_tokens"] == 4 * 14
    seeds = [params.seed for _, params in engine.submitted]
    assert seeds[0] == 7 != seeds[1]
    assert seeds[:2] == seeds[2:]


async def test_streamed_choices_arrive_interleaved_and_complete() -> None:
    chunks = events(await post(FakeEngine(), "/v1/completions", COMPLETION | {"n": 3, "stream": True}))
    assert [streamed_text(chunks, choice) for choice in range(3)] == ["Hello, world."] * 3
    assert [chunk["choices"][0]["index"] for chunk in chunks[:3]] == [0, 1, 2]


async def test_prompt_may_be_token_ids() -> None:
    engine = FakeEngine()
    await post(engine, "/v1/completions", COMPLETION | {"prompt": [1, 2, 3], "priority": -2})
    assert engine.submitted[0][0] == [1, 2, 3]
    assert engine.priorities == [-2]


async def test_text_parts_of_a_message_are_joined() -> None:
    engine = FakeEngine()
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    await post(engine, "/v1/chat/completions", CHAT | {"messages": [{"role": "developer", "content": parts}]})
    assert bytes(engine.submitted[0][0]) == b"system: ab\n"


async def test_slow_reader_gets_several_tokens_in_one_event() -> None:
    engine = FakeEngine(tokens_per_event=6)
    chunks = events(await post(engine, "/v1/completions", COMPLETION | {"stream": True}))
    assert chunks[0]["choices"][0]["text"] == "Hello,"
    assert streamed_text(chunks) == "Hello, world."


async def test_first_event_arrives_before_the_last_token_is_made() -> None:
    engine = FakeEngine(num_ungated=1)
    engine.gate.clear()
    async with (
        listening(make_app(engine)) as client,
        client.stream("POST", "/v1/completions", json=COMPLETION | {"stream": True}) as response,
    ):
        parts = response.aiter_text()
        assert '"text":"H"' in await anext(parts)
        engine.gate.set()
        rest = "".join([part async for part in parts])
    assert rest.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("num_ungated", [0, 3])
async def test_client_that_leaves_a_stream_aborts_its_request(num_ungated: int) -> None:
    engine = FakeEngine(num_ungated=num_ungated)
    engine.gate.clear()
    app = make_app(engine)
    async with listening(app) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/completions", json=COMPLETION | {"stream": True, "n": 2}, timeout=0.2)
        await eventually(lambda: len(engine.aborted) == 2)
        await eventually(lambda: service_of(app).admission.num_requests == 0)
    assert b'requests_finished_total{model="fake",reason="abort"} 2.0' in service_of(app).metrics.render()


async def test_client_that_leaves_before_the_answer_aborts_its_request() -> None:
    engine = FakeEngine()
    engine.gate.clear()
    async with listening(make_app(engine)) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/chat/completions", json=CHAT, timeout=0.2)
        await eventually(lambda: engine.aborted == ["0"])


async def test_failure_before_the_first_token_is_a_status_even_for_a_stream() -> None:
    engine = FakeEngine()
    engine.error = TokenEvent("0", [], "error", error="logits were not finite", error_code="internal")
    response = await post(engine, "/v1/completions", COMPLETION | {"stream": True})
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "logits were not finite"


async def test_engine_that_dies_ends_each_stream_with_an_error_event() -> None:
    engine = FakeEngine(num_ungated=2)
    engine.gate.clear()
    async with (
        listening(make_app(engine)) as client,
        client.stream("POST", "/v1/completions", json=COMPLETION | {"stream": True}) as response,
    ):
        parts = response.aiter_text()
        await anext(parts)
        engine.die("killed")
        rest = "".join([part async for part in parts])
    last = orjson.loads(rest.split("data: ")[-1])
    assert last["error"]["message"] == "killed"
    assert last["error"]["code"] == "engine_dead"
    assert "[DONE]" not in rest


async def test_dead_engine_is_a_503() -> None:
    engine = FakeEngine()
    engine.die("killed")
    response = await post(engine, "/v1/chat/completions", CHAT)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
