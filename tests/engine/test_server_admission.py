"""Who gets in, and what a full server answers."""

import asyncio

import pytest

from octavo_engine.config import SchedulerConfig
from octavo_engine.errors import QueueFull
from octavo_engine.server.admission import Admission, Draining

from .server_support import FakeEngine, client_of, eventually, listening, make_app, service_of

COMPLETION = {"model": "fake", "prompt": "Hi"}


def make_admission(max_num_seqs: int = 2, max_num_waiting: int = 1, max_waiting_tokens: int = 100) -> Admission:
    return Admission(
        SchedulerConfig(
            max_num_seqs=max_num_seqs, max_num_waiting=max_num_waiting, max_waiting_tokens=max_waiting_tokens
        )
    )


def test_queue_is_bounded_by_sequences_beyond_the_free_places() -> None:
    admission = make_admission()
    tickets = [admission.admit(1, 10) for _ in range(3)]
    with pytest.raises(QueueFull, match="3 sequences wait already; the limit is 1"):
        admission.admit(1, 10)
    tickets[0].start()
    with pytest.raises(QueueFull):
        admission.admit(1, 10)
    tickets[0].close()
    admission.admit(1, 10)


def test_queue_is_bounded_by_tokens_but_takes_one_request_of_any_size() -> None:
    admission = make_admission(max_num_waiting=10)
    big = admission.admit(1, 500)
    with pytest.raises(QueueFull, match="500 prompt tokens wait already; the limit is 100"):
        admission.admit(1, 1)
    big.start()
    admission.admit(1, 1)


def test_request_of_several_sequences_enters_as_a_whole_or_not_at_all() -> None:
    admission = make_admission(max_num_seqs=4, max_num_waiting=0)
    admission.admit(3, 3)
    with pytest.raises(QueueFull):
        admission.admit(2, 2)
    admission.admit(1, 1)


async def test_request_of_more_sequences_than_could_ever_enter_is_400() -> None:
    app = make_app(FakeEngine(), limits=SchedulerConfig(max_num_seqs=2, max_num_waiting=1, max_num_batched_tokens=8))
    async with client_of(app) as client:
        response = await client.post("/v1/completions", json=COMPLETION | {"prompt": ["a", "b"], "n": 2})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "4 answers in one request are more than 3"


@pytest.mark.parametrize("starts", [0, 1, 2])
def test_closed_ticket_leaves_no_trace(starts: int) -> None:
    admission = make_admission()
    ticket = admission.admit(2, 20)
    for _ in range(starts):
        ticket.start()
    ticket.close()
    counts = (admission.num_requests, admission.num_waiting, admission.num_waiting_tokens, admission.num_running)
    assert counts == (0, 0, 0, 0)


def test_longer_queue_asks_for_more_patience() -> None:
    admission = make_admission(max_num_seqs=2, max_num_waiting=18)
    for _ in range(20):
        admission.admit(1, 1)
    with pytest.raises(QueueFull) as refusal:
        admission.admit(1, 1)
    assert refusal.value.retry_after == 11


def test_draining_admits_nobody() -> None:
    admission = make_admission()
    admission.is_draining = True
    with pytest.raises(Draining):
        admission.admit(1, 1)


async def test_full_queue_is_429_with_retry_after_and_is_counted() -> None:
    engine = FakeEngine()
    engine.gate.clear()
    app = make_app(engine, limits=SchedulerConfig(max_num_seqs=1, max_num_waiting=0))
    async with listening(app) as client:
        first = asyncio.create_task(client.post("/v1/completions", json=COMPLETION))
        await eventually(lambda: engine.num_open == 1)
        second = await client.post("/v1/completions", json=COMPLETION | {"stream": True})
        engine.gate.set()
        assert (await first).status_code == 200
    assert second.status_code == 429
    assert second.headers["retry-after"] == "2"
    assert second.json()["error"]["code"] == "queue_full"
    assert b'octavo_requests_rejected_total{model="fake",reason="queue_full"} 1.0' in service_of(app).metrics.render()


async def test_draining_is_503_with_retry_after_while_the_running_stream_finishes() -> None:
    engine = FakeEngine(num_ungated=1)
    engine.gate.clear()
    app = make_app(engine)
    async with listening(app) as client:
        first = asyncio.create_task(client.post("/v1/completions", json=COMPLETION | {"stream": True}))
        await eventually(lambda: engine.num_open == 1)
        assert (await client.post("/drain")).json() == {"draining": True, "in_flight": 1}
        second = await client.post("/v1/completions", json=COMPLETION)
        assert (await client.get("/health/ready")).status_code == 503
        assert (await client.get("/health/live")).status_code == 200
        engine.gate.set()
        assert (await first).text.endswith("data: [DONE]\n\n")
        assert (await client.get("/drain")).json() == {"draining": True, "in_flight": 0}
    assert second.status_code == 503
    assert second.headers["retry-after"] == "1"
    assert second.json()["error"]["code"] == "draining"


async def test_drain_can_be_undone() -> None:
    async with client_of(make_app(FakeEngine())) as client:
        await client.post("/drain")
        assert (await client.delete("/drain")).json() == {"draining": False, "in_flight": 0}
        assert (await client.get("/health")).status_code == 200
        assert (await client.post("/v1/completions", json=COMPLETION)).status_code == 200


async def test_drain_of_a_stopping_server_cannot_be_undone() -> None:
    app = make_app(FakeEngine())
    service_of(app).is_stopping = True
    async with client_of(app) as client:
        assert (await client.delete("/drain")).status_code == 409


@pytest.mark.parametrize(
    ("address", "header", "status"),
    [
        ("127.0.0.1", None, 200),
        ("::1", None, 200),
        ("10.0.0.7", None, 403),
        ("10.0.0.7", "Bearer wrong", 403),
        ("10.0.0.7", "secret", 403),
        ("10.0.0.7", "Bearer s\u00e9cret", 403),
        ("10.0.0.7", "Bearer secret", 200),
        ("10.0.0.7", "bearer secret", 200),
        ("unix", None, 403),
    ],
)
async def test_drain_is_for_this_host_or_the_admin(address: str, header: str | None, status: int) -> None:
    async with client_of(make_app(FakeEngine(), admin_token="secret"), address) as client:
        headers = {b"authorization": header.encode()} if header else {}
        assert (await client.post("/drain", headers=headers)).status_code == status


async def test_without_an_admin_token_nobody_else_may_drain() -> None:
    async with client_of(make_app(FakeEngine()), "10.0.0.7") as client:
        assert (await client.post("/drain", headers={"authorization": "Bearer "})).status_code == 403
        assert (await client.get("/drain")).status_code == 200


async def test_a_signal_after_a_drain_over_http_gives_only_the_time_that_is_left() -> None:
    service = service_of(make_app(FakeEngine(), drain_timeout=60.0))
    assert service.drain_seconds_left(now=5.0) == 60.0
    service.start_drain(now=10.0)
    service.start_drain(now=30.0)
    assert service.drain_seconds_left(now=40.0) == 30.0
    assert service.drain_seconds_left(now=100.0) == 0.0
    service.end_drain()
    assert service.drain_seconds_left(now=100.0) == 60.0
