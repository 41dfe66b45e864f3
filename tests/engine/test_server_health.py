"""Health, metrics, keys, ids: what surrounds the answers."""

import pytest

from octavo_engine.messages import EngineStats

from .server_support import FakeEngine, client_of, make_app, service_of

COMPLETION = {"model": "fake", "prompt": "Hi"}


async def statuses(engine: FakeEngine) -> list[int]:
    async with client_of(make_app(engine, stall_timeout=30)) as client:
        return [(await client.get(f"/health{path}")).status_code for path in ("/live", "/ready", "")]


async def test_healthy() -> None:
    assert await statuses(FakeEngine()) == [200, 200, 200]


async def test_dead_engine_is_neither_live_nor_ready() -> None:
    engine = FakeEngine()
    engine.die("killed")
    assert await statuses(engine) == [503, 503, 503]


async def test_engine_that_stands_still_with_work_pending_is_not_live() -> None:
    engine = FakeEngine()
    engine.seconds_since_progress = 29
    assert await statuses(engine) == [200, 200, 200]
    engine.seconds_since_progress = 31
    assert await statuses(engine) == [503, 503, 503]


async def test_health_says_what_is_wrong() -> None:
    engine = FakeEngine()
    engine.seconds_since_progress = 200
    async with client_of(make_app(engine)) as client:
        status = (await client.get("/health/live")).json()["status"]
    assert status == "the engine has work but made no step for 200 s (limit 120 s)"


@pytest.mark.parametrize("header", [None, "", "key", "Bearer", "Bearer other", "Basic key1", "Bearer key1"])
async def test_wrong_api_key_is_401_before_the_body_is_read(header: str | None) -> None:
    headers = {"authorization": header} if header is not None else {}
    async with client_of(make_app(FakeEngine(), api_key=("key1 x", "key2"))) as client:
        response = await client.post("/v1/completions", content=b"not json", headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/v1/models")).status_code == 401
        assert (await client.post("/tokenize", json={"prompt": "Hi"})).status_code == 401
        assert (await client.get("/health/ready")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200


async def test_any_of_the_api_keys_opens() -> None:
    async with client_of(make_app(FakeEngine(), api_key=("key1", "key2"))) as client:
        for key in ("key1", "key2"):
            response = await client.post("/v1/completions", json=COMPLETION, headers={"authorization": f"Bearer {key}"})
            assert response.status_code == 200


@pytest.mark.parametrize(("given", "is_kept"), [("abc-1", True), ("a b", False), ("x" * 129, False), ("a\tb", False)])
async def test_request_id_of_the_client_comes_back_if_it_is_harmless(given: str, is_kept: bool) -> None:
    async with client_of(make_app(FakeEngine())) as client:
        response = await client.get("/v1/models", headers={"x-request-id": given})
    assert (response.headers["x-request-id"] == given) == is_kept
    assert response.headers["x-request-id"]


async def test_two_requests_with_the_same_id_do_not_collide() -> None:
    engine = FakeEngine()
    async with client_of(make_app(engine)) as client:
        answers = [
            await client.post("/v1/completions", json=COMPLETION, headers={"x-request-id": "same"}) for _ in range(2)
        ]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len({answer.json()["id"] for answer in answers}) == 2


async def test_models_are_listed_and_found_by_name() -> None:
    async with client_of(make_app(FakeEngine())) as client:
        assert [card["id"] for card in (await client.get("/v1/models")).json()["data"]] == ["fake"]
        assert (await client.get("/v1/models/fake")).json()["max_model_len"] == 128
        assert (await client.get("/v1/models/other/one")).status_code == 404


async def test_tokenize_and_detokenize_are_inverse() -> None:
    async with client_of(make_app(FakeEngine())) as client:
        tokens = (await client.post("/tokenize", json={"prompt": "Hi é"})).json()
        text = (await client.post("/detokenize", json={"tokens": tokens["tokens"]})).json()
        chat = (await client.post("/tokenize", json={"messages": [{"role": "user", "content": "Hi"}]})).json()
        assert (await client.post("/tokenize", json={})).status_code == 400
        assert (await client.post("/detokenize", json={"tokens": [999]})).status_code == 400
    assert tokens["count"] == len(tokens["tokens"]) == 5
    assert text == {"prompt": "Hi é"}
    assert chat["count"] == len("user: Hi\n")


async def test_api_is_described() -> None:
    async with client_of(make_app(FakeEngine())) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
    assert {"/v1/chat/completions", "/v1/completions", "/v1/models", "/drain"} <= paths.keys()


async def test_metrics_survive_an_engine_that_cannot_answer(caplog: pytest.LogCaptureFixture) -> None:
    engine = FakeEngine()
    app = make_app(engine)
    engine.stats = None  # type: ignore[assignment]
    async with client_of(app) as client:
        response = await client.get("/metrics")
    assert response.status_code == 200
    assert "octavo_requests_finished_total" in response.text
    assert "could not be read" in caplog.text


async def test_times_and_ends_of_requests_are_measured() -> None:
    engine = FakeEngine(tokens_per_event=5)
    app = make_app(engine)
    async with client_of(app) as client:
        await client.post("/v1/completions", json=COMPLETION)
        await client.post("/v1/completions", json=COMPLETION | {"max_tokens": 5, "n": 2})
        await client.post("/v1/completions", json=COMPLETION | {"max_tokens": 0})
    engine.on_step(EngineStats(step_seconds=0.3))
    text = service_of(app).metrics.render().decode()
    assert 'octavo_step_seconds_sum{model="fake"} 0.3' in text
    assert 'octavo_queue_seconds_count{model="fake"} 3.0' in text
    assert 'octavo_prefill_seconds_count{model="fake"} 3.0' in text
    assert 'octavo_time_to_first_token_seconds_count{model="fake"} 3.0' in text
    assert 'octavo_request_seconds_count{model="fake"} 3.0' in text
    assert 'octavo_requests_finished_total{model="fake",reason="stop"} 1.0' in text
    assert 'octavo_requests_finished_total{model="fake",reason="length"} 2.0' in text
    assert 'octavo_requests_rejected_total{model="fake",reason="invalid"} 1.0' in text
