"""The timeline as a picture: what the engines reported above, what the operator made of it below."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from dev.demo.timeline import Timeline

KV, WAITING, READY, DESIRED, INK = "#3b6fb6", "#e08a2b", "#2f9e6e", "#8a8f98", "#30343b"


def draw(timeline: Timeline, path: Path, kv_target: float) -> None:
    """Write the picture as PNG."""
    figure, (load, speed, replicas) = plt.subplots(
        3, 1, sharex=True, figsize=(11, 7.5), height_ratios=[3, 1.4, 2], layout="constrained"
    )
    _draw_load(load, timeline, kv_target)
    _draw_speed(speed, timeline)
    _draw_replicas(replicas, timeline)
    for axes in (load, speed, replicas):
        _tidy(axes, timeline)
    _name_marks(load, timeline)
    streams, cut = len(timeline.results), sum(result.is_cut for result in timeline.results)
    title = f"Replicas follow KV-cache use and queue: {streams} streams, {cut} cut"
    figure.suptitle(title, x=0.01, ha="left", color=INK, weight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_load(axes: Any, timeline: Timeline, kv_target: float) -> None:
    t = [sample.t for sample in timeline.samples]
    kv = [100 * sample.kv for sample in timeline.samples]
    axes.fill_between(t, kv, color=KV, alpha=0.2)
    axes.plot(t, kv, color=KV, linewidth=1.8, label="KV cache in use")
    axes.axhline(100 * kv_target, color=KV, linewidth=1, linestyle=(0, (4, 3)), label=f"target {kv_target:.0%}")
    axes.set_ylabel("KV cache, %", color=KV)
    axes.set_ylim(0, 105)
    queue = axes.twinx()
    queue.plot(t, [sample.waiting for sample in timeline.samples], color=WAITING, linewidth=1.8, label="waiting")
    queue.set_ylabel("requests waiting", color=WAITING)
    queue.set_ylim(0, 1.05 * max([1, *(sample.waiting for sample in timeline.samples)]))
    queue.yaxis.get_major_locator().set_params(integer=True)
    queue.spines[["top", "left"]].set_visible(False)
    handles = [*axes.get_legend_handles_labels()[0], *queue.get_legend_handles_labels()[0]]
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=3)


def _draw_speed(axes: Any, timeline: Timeline) -> None:
    t = [sample.t for sample in timeline.samples]
    axes.fill_between(t, [sample.tokens_per_second for sample in timeline.samples], color=INK, alpha=0.25)
    axes.set_ylabel("tokens/s", color=INK)
    axes.set_ylim(bottom=0)


def _draw_replicas(axes: Any, timeline: Timeline) -> None:
    t = [sample.t for sample in timeline.samples]
    ready = [sample.ready for sample in timeline.samples]
    desired = [sample.desired for sample in timeline.samples]
    axes.fill_between(t, ready, step="post", color=READY, alpha=0.25)
    axes.step(t, ready, where="post", color=READY, linewidth=2, label="ready")
    axes.step(t, desired, where="post", color=DESIRED, linewidth=1.5, linestyle=(0, (4, 3)), label="desired")
    axes.set_ylabel("replicas", color=INK)
    axes.set_xlabel("seconds since the load began", color=INK)
    axes.set_yticks(range(max([*ready, *desired, 1]) + 1))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=2)


def _tidy(axes: Any, timeline: Timeline) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.2)
    axes.margins(x=0)
    for t, _ in timeline.marks:
        axes.axvline(t, color=INK, linewidth=0.8, alpha=0.5)


def _name_marks(axes: Any, timeline: Timeline) -> None:
    """Write each mark's text beside its line, on the side where there is room."""
    end = timeline.samples[-1].t
    for t, text in timeline.marks:
        side, shift = ("right", -4) if t > 0.9 * end else ("left", 4)
        axes.annotate(text, (t, 101), xytext=(shift, 0), textcoords="offset points", ha=side, fontsize=9, color=INK)
