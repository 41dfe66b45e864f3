"""EngineClient over a real engine process and over a thread, both with the fake model."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from octavo_engine.engine_client import EngineClient
from octavo_engine.engine_transport import ProcessTransport, ThreadTransport, Transport
from octavo_engine.errors import EngineDead, EngineStartError, InvalidRequest, QueueFull
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.token_stream import TokenStream
from tests.engine.core_support import make_config
from tests.fakes import expected_tokens

LOAD_RUNNER = "tests.fakes:load_fake_runner"
TRANSPORTS = pytest.mark.parametrize("transport", [ProcessTransport, ThreadTransport])
MakeTransport = Callable[[str], Transport]


@asynccontextmanager
async def engine(
    model: str = "fake://64", transport: MakeTransport = ThreadTransport, **overrides: Any
) -> AsyncIterator[EngineClient]:
    client = EngineClient(make_config(model=model, **overrides), transport(LOAD_RUNNER))
    await client.start()
    try:
        yield client
    finally:
        await client.close()


def greedy(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, temperature=0)


async def read(stream: TokenStream) -> list[int]:
    return [token_id async for event in stream for token_id in event.token_ids]


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


@TRANSPORTS
@pytest.mark.parametrize("depth", [1, 2])
async def test_concurrent_streams_get_their_own_tokens(transport: MakeTransport, depth: int) -> None:
    async with engine(f"fake://64?depth={depth}", transport) as client:
        prompts = [[i, i + 1, i + 2] for i in range(50)]
        outputs = await asyncio.gather(*(read(client.generate(prompt, greedy(20))) for prompt in prompts))
        assert outputs == [expected_tokens(prompt, greedy(20)) for prompt in prompts]
        await until(lambda: client.stats.is_idle)
        assert client.stats.num_used_blocks == 0
        assert client.stats.generation_tokens_total == 50 * 20
        assert client.num_open_streams == 0


@TRANSPORTS
async def test_leaving_a_stream_aborts_the_request(transport: MakeTransport) -> None:
    async with engine("fake://64?step_seconds=0.002", transport) as client:
        async with client.generate([1, 2, 3], greedy(900)) as stream:
            async for _ in stream:
                break
        await until(lambda: client.stats.is_idle and client.stats.num_used_blocks == 0)
        assert client.stats.generation_tokens_total < 900


async def test_cancelling_the_reader_aborts_the_request() -> None:
    async with engine("fake://64?step_seconds=0.002") as client:
        reader = asyncio.create_task(read(client.generate([1, 2, 3], greedy(900))))
        await until(lambda: client.stats.num_running == 1)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await until(lambda: client.stats.is_idle and client.stats.num_used_blocks == 0)


async def test_closing_a_stream_that_was_never_read_aborts_the_request() -> None:
    async with engine("fake://64?step_seconds=0.002") as client:
        client.generate([1, 2, 3], greedy(900)).close()
        await until(lambda: client.stats.num_waiting + client.stats.num_running == 0)
        assert client.num_open_streams == 0


async def test_a_slow_reader_gets_several_steps_in_one_event() -> None:
    async with engine() as client:
        stream = client.generate([1, 2, 3], greedy(30))
        await until(lambda: client.num_open_streams == 0)
        events = [event async for event in stream]
        assert len(events) == 1
        assert events[0].token_ids == expected_tokens([1, 2, 3], greedy(30))
        assert events[0].finish_reason == "length"


async def test_a_request_that_cannot_fit_is_refused_and_others_go_on() -> None:
    async with engine("fake://4", block_size=8) as client:
        good = asyncio.create_task(read(client.generate([1, 2, 3], greedy(20))))
        with pytest.raises(InvalidRequest, match="exceed the limit of 32 tokens"):
            await read(client.generate([1] * 30, greedy(3)))
        assert await good == expected_tokens([1, 2, 3], greedy(20))


async def test_the_waiting_queue_is_bounded() -> None:
    async with engine("fake://64?step_seconds=0.05", max_num_seqs=2, max_num_waiting=3) as client:
        streams = [client.generate([1, 2, 3], greedy(100)) for _ in range(5)]
        with pytest.raises(QueueFull, match="max_num_waiting"):
            await read(client.generate([1], greedy(1)))
        assert client.num_open_streams == 5
        for stream in streams:
            stream.close()


async def test_the_waiting_tokens_are_bounded() -> None:
    async with engine("fake://64?step_seconds=0.05", max_num_seqs=1, max_waiting_tokens=20) as client:
        running = client.generate([1, 2, 3], greedy(100))
        await anext(running)
        waiting = client.generate([1] * 15, greedy(1))
        with pytest.raises(QueueFull, match="max_waiting_tokens"):
            await read(client.generate([1] * 15, greedy(1)))
        running.close()
        assert await read(waiting) == expected_tokens([1] * 15, greedy(1))


@TRANSPORTS
async def test_a_crash_reaches_every_stream_with_its_cause(transport: MakeTransport) -> None:
    async with engine("fake://64?crash_at=5", transport) as client:
        streams = [client.generate([i, 2, 3], greedy(50)) for i in range(10)]
        results = await asyncio.gather(*map(read, streams), return_exceptions=True)
        assert all(isinstance(result, EngineDead) and "fell off the bus" in str(result) for result in results)
        assert "fell off the bus" in str(await client.wait_dead())
        assert not client.is_alive
        with pytest.raises(EngineDead):
            client.generate([1], greedy(1))


async def test_a_process_that_dies_without_a_word_is_noticed_at_once() -> None:
    async with engine("fake://64?exit_at=5", ProcessTransport) as client:
        with pytest.raises(EngineDead, match="exit code 3"):
            await read(client.generate([1, 2, 3], greedy(50)))
        assert not client.is_alive


async def test_a_killed_process_is_noticed_at_once_even_when_idle() -> None:
    async with engine("fake://64", ProcessTransport) as client:
        assert isinstance(client._transport, ProcessTransport)
        assert client._transport.pid
        os.kill(client._transport.pid, signal.SIGKILL)
        error = await asyncio.wait_for(client.wait_dead(), 5)
        assert "exit code -9" in str(error)


async def test_a_hung_engine_shows_no_progress_and_is_killed_on_stop() -> None:
    client = EngineClient(make_config(model="fake://64?hang_at=3"), ProcessTransport(LOAD_RUNNER))
    await client.start()
    assert client.seconds_since_progress == 0.0
    gone, stream = client.generate([1, 2, 3], greedy(50)), client.generate([1, 2, 3], greedy(50))
    await anext(stream)
    gone.close()
    await until(lambda: client.seconds_since_progress > 0.3)
    assert client.is_alive
    await client.close(grace_seconds=0.1)
    assert not client._transport.is_alive
    with pytest.raises(EngineDead):
        await read(stream)


async def test_a_hung_engine_shows_no_progress_after_all_readers_have_left() -> None:
    client = EngineClient(make_config(model="fake://64?hang_at=1"), ProcessTransport(LOAD_RUNNER))
    await client.start()
    async with client.generate([1, 2, 3], greedy(50)):
        await until(lambda: client.seconds_since_progress > 0.3)
    assert client.num_open_streams == 0
    assert client.seconds_since_progress > 0.3
    client.generate([1, 2, 3], greedy(50))
    assert client.seconds_since_progress > 0.3
    await client.close(grace_seconds=0.1)


@TRANSPORTS
async def test_a_model_that_does_not_load_says_why(transport: MakeTransport) -> None:
    client = EngineClient(make_config(model="fake://64?fail=no config.json in /models/x"), transport(LOAD_RUNNER))
    with pytest.raises(EngineStartError, match=r"no config.json in /models/x"):
        await client.start()
    assert not client.is_alive


async def test_an_idle_engine_process_uses_no_cpu() -> None:
    async with engine("fake://64", ProcessTransport) as client:
        await read(client.generate([1, 2, 3], greedy(5)))
        assert isinstance(client._transport, ProcessTransport)
        before = cpu_ticks(client._transport.pid)
        await asyncio.sleep(0.5)
        assert cpu_ticks(client._transport.pid) - before <= 1


def cpu_ticks(pid: int | None) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


ORPHAN = """
import asyncio
from octavo_engine.engine_client import EngineClient
from octavo_engine.engine_transport import ProcessTransport
from octavo_engine.config import EngineConfig
from octavo_engine.sampling_params import SamplingParams

async def main():
    client = EngineClient(EngineConfig(model="fake://64?hang_at=2"), ProcessTransport("tests.fakes:load_fake_runner"))
    await client.start()
    client.generate([1, 2, 3], SamplingParams(max_tokens=9, temperature=0))
    print(client._transport.pid, flush=True)
    await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_an_engine_ends_with_its_parent_even_when_it_hangs(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=environment, text=True) as parent:
        assert parent.stdout
        engine_pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{engine_pid}").exists() and state(engine_pid) != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@TRANSPORTS
async def test_a_thousand_streams_with_disconnects_leave_nothing_behind(transport: MakeTransport) -> None:
    async with engine("fake://400?depth=2", transport, max_num_seqs=64, max_num_batched_tokens=256) as client:

        async def chat(i: int) -> None:
            prompt = [i % 50] * (i % 40 + 1)
            stream = client.generate(prompt, greedy(i % 20 + 1))
            if i % 10 == 0:
                await anext(stream)
                stream.close()
            else:
                assert await read(stream) == expected_tokens(prompt, greedy(i % 20 + 1))

        await asyncio.gather(*map(chat, range(1000)))
        await until(lambda: client.stats.is_idle)
        assert client.stats.num_used_blocks == 0
        assert client.stats.block_repairs_total == 0
        assert client.num_open_streams == 0
    gc.collect()
