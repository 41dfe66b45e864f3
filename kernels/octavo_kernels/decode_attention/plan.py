"""Which program attends to which part of which sequence, decided on the device so that a CUDA graph can hold it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from octavo_kernels.launch import launch_options, next_power_of_two, runs_triton

_CHUNK_GRANULE = 32
_MIN_CHUNK, _MIN_CHUNK_ALONE = 192, 32


@dataclass(frozen=True)
class DecodePlan:
    """Work items of one decode batch and their partial results.

    Row ``b`` attends to cached tokens ``starts[b] .. lengths[b]`` in chunks of ``chunks[b]`` tokens; its items are
    ``offsets[b] .. offsets[b + 1]``, and ``item_rows`` maps an item back to its row. The last item to arrive for a row
    and head combines their partial softmax states.
    """

    starts: torch.Tensor
    chunks: torch.Tensor
    offsets: torch.Tensor
    item_rows: torch.Tensor
    partial_out: torch.Tensor
    partial_stats: torch.Tensor
    arrivals: torch.Tensor
    num_splits: int

    @property
    def max_items(self) -> int:
        return self.item_rows.shape[0]

    @classmethod
    def allocate(
        cls, num_rows: int, num_heads: int, num_kv_heads: int, head_dim: int, device: torch.device, num_splits: int = 0
    ) -> DecodePlan:
        """``num_splits`` is how many chunks all sequences together are cut into; by default it fills the GPU."""
        num_splits = num_splits or default_num_splits(num_rows, num_kv_heads, device)
        max_items = num_rows + num_splits

        def ints(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        return cls(
            starts=ints(num_rows),
            chunks=ints(num_rows),
            offsets=ints(num_rows + 1),
            item_rows=ints(max_items),
            partial_out=torch.empty(max_items, num_heads, head_dim, dtype=torch.float32, device=device),
            partial_stats=torch.empty(max_items, num_heads, 2, dtype=torch.float32, device=device),
            arrivals=ints(num_rows, num_kv_heads),
            num_splits=num_splits,
        )


def default_num_splits(num_rows: int, num_kv_heads: int, device: torch.device) -> int:
    """So many that all programs run at once, eight on a multiprocessor; 256 for a single sequence.

    Both were measured on an H200. Rounding adds up to one item a row, which small batches leave room for.
    """
    if num_rows == 1:
        return max(1, 256 // num_kv_heads)
    num_processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
    num_at_once = 8 * num_processors // num_kv_heads
    return max(1, num_at_once - num_rows if num_rows <= num_at_once // 2 else num_at_once)


def advance_plan(
    plan: DecodePlan,
    lengths: torch.Tensor,
    shared_lens: torch.Tensor,
    *,
    advance: bool,
    window: int = 0,
    pdl: bool = False,
) -> None:
    """Grow ``lengths`` by one in place when ``advance``, then plan a decode step for them.

    lengths: int32 [num_rows], cached tokens, negative for padding (which gets no work); shared_lens: int32 [num_rows],
    leading tokens that `prefix_attention` covers; window: attend to this many last tokens only (0: to all).
    It must be the last kernel of a step: the next step reads the plan before waiting for its predecessors.
    """
    num_rows = lengths.shape[0]
    if not runs_triton(lengths):
        from octavo_kernels.decode_attention.reference import advance_plan_reference

        advance_plan_reference(plan, lengths, shared_lens, advance=advance, window=window)
        return
    from octavo_kernels.decode_attention.kernel import advance_plan_kernel

    advance_plan_kernel[(1,)](
        lengths,
        shared_lens,
        plan.starts,
        plan.chunks,
        plan.offsets,
        plan.item_rows,
        num_rows,
        plan.num_splits,
        window,
        MIN_CHUNK=_MIN_CHUNK if num_rows > 1 else _MIN_CHUNK_ALONE,
        MAX_ITEMS=plan.max_items,
        BLOCK=next_power_of_two(num_rows),
        GRANULE=_CHUNK_GRANULE,
        ADVANCE=advance,
        **launch_options(4, pdl=pdl),
    )
