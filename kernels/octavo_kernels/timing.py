"""Times of device work too short for a host clock."""

from __future__ import annotations

from collections.abc import Callable

import torch


def graph_microseconds(work: Callable[[], object], num_replays: int = 10) -> float:
    """Median time of ``work`` replayed as a CUDA graph, which leaves out what the host costs."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    graph.replay()
    pairs = [_timed_replay(graph) for _ in range(num_replays)]
    torch.cuda.synchronize()
    return float(sorted(start.elapsed_time(end) * 1e3 for start, end in pairs)[num_replays // 2])


def _timed_replay(graph: torch.cuda.CUDAGraph) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    return start, end
