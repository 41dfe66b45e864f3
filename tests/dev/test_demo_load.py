"""The demo's load tells whole streams from cut ones, and its crowd leaves nobody in the middle of an answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from dev.demo.chat import StreamResult, make_client, stream_chat
from dev.demo.crowd import Crowd
from dev.demo.load import LoadPlan, LoadTest, Speedometer
from dev.demo.observe import ServiceView, view
from dev.demo.steps import StepFailed
from dev.demo.timeline import Timeline


def chunk(text: str = "", finish_reason: str | None = None) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return json.dumps({"choices": [choice]}, ensure_ascii=False)


WHOLE = [chunk("Hello"), chunk(" there"), chunk(finish_reason="stop"), "[DONE]"]


class FakeEngine:
    """Streams the lines it is told to, after refusing as many requests as it is told to."""

    def __init__(self) -> None:
        self.lines = WHOLE
        self.num_refusals = 0
        self.connections: set[Any] = set()
        self.url = ""

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(request.transport.get_extra_info("peername") if request.transport else None)
        if self.num_refusals:
            self.num_refusals -= 1
            return web.Response(status=503, headers={"retry-after-ms": "1"})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for line in self.lines:
            await response.write(f"data: {line}\n\n".encode())
        return response


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    fake = FakeEngine()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", fake.chat)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()


async def one_stream(engine: FakeEngine) -> StreamResult:
    result = StreamResult()
    async with make_client(engine.url) as client:
        await stream_chat(client, "model", "Hello?", result)
    return result


async def test_stream_that_ends_with_reason_and_done_is_whole(engine: FakeEngine) -> None:
    result = await one_stream(engine)
    assert (result.is_cut, result.num_tokens, result.finish_reason, result.error) == (False, 2, "stop", None)


async def test_answer_with_unusual_line_separators_is_whole(engine: FakeEngine) -> None:
    engine.lines = [chunk("one\u2028two\x85three\x0cfour"), *WHOLE[1:]]
    assert not (await one_stream(engine)).is_cut


@pytest.mark.parametrize(
    "lines",
    [
        WHOLE[:-1],
        WHOLE[:2],
        [*WHOLE[:2], "[DONE]"],
        [chunk("Hi"), chunk(finish_reason="abort"), "[DONE]"],
        [chunk("Hi"), json.dumps({"error": {"message": "shutting down"}}), "[DONE]"],
        [chunk("Hi"), "{not json"],
    ],
    ids=["no done", "no end", "no reason", "aborted", "error frame", "broken frame"],
)
async def test_any_other_end_is_a_cut_stream(engine: FakeEngine, lines: list[str]) -> None:
    engine.lines = lines
    assert (await one_stream(engine)).is_cut


async def test_refused_request_is_retried_and_counted(engine: FakeEngine) -> None:
    engine.num_refusals = 1
    result = await one_stream(engine)
    assert (result.is_cut, result.retries) == (False, 1)


async def test_unreachable_service_is_a_result_not_an_exception(engine: FakeEngine, unused_tcp_port: int) -> None:
    engine.url = f"http://127.0.0.1:{unused_tcp_port}"
    result = await one_stream(engine)
    assert result.is_cut
    assert result.error is not None


async def test_every_chat_opens_its_own_connection(engine: FakeEngine) -> None:
    async with make_client(engine.url) as client:
        for _ in range(3):
            await stream_chat(client, "model", "Hello?", StreamResult())
    assert len(engine.connections) == 3


@pytest.fixture
def unused_tcp_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def instant_chat(question: str, result: StreamResult) -> None:
    await asyncio.sleep(0.001)
    result.finish_reason, result.is_done = "length", True


async def test_crowd_shrinks_to_exactly_the_asked_size_and_leaves() -> None:
    crowd = Crowd(instant_chat)
    crowd.resize(8)
    assert crowd.num_active == 8
    crowd.resize(2)
    await asyncio.sleep(0.05)
    assert crowd.num_active == 2
    await crowd.leave()
    assert crowd.num_active == 0
    assert not any(result.is_cut for result in crowd.results)
    assert len(crowd.results) > 8


@dataclass
class FakeService:
    """Has as many replicas as its rule makes of the crowd's size."""

    crowd: Crowd
    replicas: Callable[[int], int]

    async def look(self) -> ServiceView:
        ready = self.replicas(self.crowd.num_active)
        return ServiceView(ready=ready, desired=ready)


def load_test(crowd: Crowd, service: FakeService, timeline: Timeline, **plan: Any) -> LoadTest:
    limits = {"crowd": 2, "stragglers": 1, "min_streams": 1, "rise_timeout": 1, "fall_timeout": 1} | plan
    return LoadTest(crowd, service, timeline, LoadPlan(**limits), lambda _: None)


async def test_load_ends_when_replicas_grew_and_came_back() -> None:
    timeline, crowd = Timeline(), Crowd(instant_chat)
    await load_test(crowd, FakeService(crowd, lambda size: 3 if size > 1 else 1), timeline).run()
    assert [text for _, text in timeline.marks] == ["crowd comes", "crowd leaves"]
    assert crowd.num_active == 0


async def test_load_without_growth_fails_with_what_was_seen_and_lets_nobody_stay() -> None:
    crowd = Crowd(instant_chat)
    with pytest.raises(StepFailed, match="did not grow to 3 within 1 s"):
        await load_test(crowd, FakeService(crowd, lambda _: 1), Timeline()).run()
    assert crowd.num_active == 0


async def test_load_fails_early_when_no_stream_ends_well() -> None:
    async def broken(question: str, result: StreamResult) -> None:
        result.error = "404: no such model"

    crowd = Crowd(broken)
    with pytest.raises(StepFailed, match="404: no such model"):
        await load_test(crowd, FakeService(crowd, lambda _: 1), Timeline(), rise_timeout=30).run()


def test_decisions_of_an_earlier_run_are_left_out() -> None:
    timeline = Timeline()
    old, new = {"time": "1", "from": 1, "to": 2}, {"time": "2", "from": 2, "to": 3}
    timeline.add_decisions(0, [old])
    timeline.add_decisions(1, [old, new])
    timeline.add_decisions(2, [old, new])
    assert [decision["to"] for decision in timeline.decisions] == [3]


def test_speed_is_of_the_last_seconds_only() -> None:
    speed = Speedometer(window=2)
    readings = [(0.0, 0), (1.0, 100), (2.0, 200), (3.0, 200), (4.0, 200)]
    assert [speed.read(t, n) for t, n in readings] == [0, 100, 100, 50, 0]


METRICS = """
# TYPE octavo_kv_cache_tokens gauge
octavo_kv_cache_tokens{model="m",state="total"} 1000.0
octavo_kv_cache_tokens{model="m",state="used"} 250.0
octavo_kv_cache_tokens{model="m",state="cached"} 100.0
# TYPE octavo_requests gauge
octavo_requests{model="m",state="running"} 4.0
octavo_requests{model="m",state="waiting"} 2.0
"""


def test_service_without_status_or_engines_is_all_zeros() -> None:
    assert view({}) == ServiceView()


def test_load_is_summed_over_engines() -> None:
    seen = view({"status": {"readyReplicas": 2}}, [METRICS, METRICS, ""])
    assert (seen.kv, seen.running, seen.waiting, seen.ready) == (0.25, 8, 4, 2)
