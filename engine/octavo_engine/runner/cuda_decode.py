"""Decode steps as CUDA graphs: the rows' state stays on the device and advances there, sampling included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from octavo_engine.runner.cuda_model import CudaModel, LinearPlan
from octavo_engine.runner.cuda_prefix import PrefixTiles, find_prefix_tiles, max_tiles
from octavo_engine.runner.cuda_staging import Staging
from octavo_engine.runner.cuda_table import SAMPLING_FIELDS, CudaRowTable, Int32Array
from octavo_engine.runner.cuda_tuning import has_pdl, plan_for
from octavo_kernels.decode_attention import DecodePlan, advance_plan, decode_attention
from octavo_kernels.embedding import embed
from octavo_kernels.paged_kv import PrefixState
from octavo_kernels.prefix_attention import prefix_attention, rows_per_tile
from octavo_kernels.sampling import SamplingTensors, SamplingWorkspace, greedy, sample

KvCaches = list[tuple[Tensor, Tensor]]

_BUCKETS = (1, 2, 4, 8, *range(16, 257, 16))
_LARGE_BUCKET_STEP = 64
_MAX_PDL_ROWS = 128
_NUM_PREFIX_SPLITS = 4


class GraphKey(NamedTuple):
    bucket: int
    is_greedy: bool
    has_prefix: bool


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a batch of up to `num_rows` rows works with; padding rows have length -1."""

    num_rows: int
    linear: LinearPlan
    plan: DecodePlan
    sampling: SamplingWorkspace
    pdl: bool


def bucket_sizes(max_num_seqs: int) -> list[int]:
    sizes = [size for size in _BUCKETS if size < max_num_seqs]
    return [*sizes, *range(_BUCKETS[-1] + _LARGE_BUCKET_STEP, max_num_seqs, _LARGE_BUCKET_STEP), max_num_seqs]


class DecodeGraphs:
    """`row_tokens` (num_rows + 1,) holds each row's last token; the last entry belongs to padding."""

    def __init__(
        self,
        model: CudaModel,
        caches: KvCaches,
        row_tokens: Tensor,
        table: CudaRowTable,
        linear_plans: dict[int, LinearPlan],
    ) -> None:
        self._model, self._caches, self._row_tokens, self._table = model, caches, row_tokens, table
        self._device = row_tokens.device
        config = model.weights.config
        self._scale = config.head_dim**-0.5
        num_rows = len(row_tokens) - 1
        self._tile_width = rows_per_tile(config.num_heads, config.num_kv_heads)
        self._state = DecodeState(num_rows, table.blocks.shape[1], self._tile_width, self._device)
        self._prefix = PrefixState.allocate(
            _NUM_PREFIX_SPLITS, num_rows, config.num_heads, config.head_dim, self._device
        )
        self._buckets = [self._make_bucket(size, linear_plans) for size in bucket_sizes(num_rows)]
        self._graphs: dict[GraphKey, torch.cuda.CUDAGraph] = {}
        self._key: GraphKey | None = None
        self._rows: list[int] = []

    def capture(self) -> None:
        """Record every graph. Largest first: the smaller ones then reuse its memory."""
        torch.cuda.synchronize()  # what fills the buffers runs on another stream
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream(self._device)
        with torch.cuda.stream(stream):
            for bucket in reversed(self._buckets):
                for key in self._keys(bucket):
                    self._record(bucket, key)
                    stream.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=pool, stream=stream):
                        self._record(bucket, key)
                    self._graphs[key] = graph
        torch.cuda.synchronize()

    def forget(self) -> None:
        """Another kind of step ran: the rows' state on the device is out of date."""
        self._rows = []

    def is_steady(self, rows: list[int]) -> bool:
        return rows == self._rows

    def load(self, rows: list[int], lengths: Int32Array, staging: Staging) -> None:
        """Set the batch: which rows, and how many tokens of each are cached."""
        indices = np.array(rows, dtype=np.int32)
        bucket = self._bucket(len(rows))
        num_blocks = int(self._table.num_blocks[indices].max())
        blocks = self._table.blocks[indices, :num_blocks]
        tiles = find_prefix_tiles(blocks, lengths, self._table.block_size, self._tile_width)
        self._state.load(indices, lengths, blocks, tiles, self._table.sampling(indices), staging)
        is_greedy = bool(self._table.is_greedy[indices].all())
        self._key = GraphKey(bucket.num_rows, is_greedy, not tiles.is_empty)
        self._rows = rows
        size = bucket.num_rows
        advance_plan(bucket.plan, self._state.lengths[:size], self._state.shared_lens[:size], advance=False)

    def append_blocks(self, new_block_ids: list[tuple[int, list[int]]], staging: Staging) -> None:
        """Write newly allocated blocks, already in the table, to the rows that are loaded."""
        if not new_block_ids:
            return
        place = {row: place for place, row in enumerate(self._rows)}
        width = self._state.tables.shape[1]
        offsets: list[int] = []
        ids: list[int] = []
        for row, block_ids in new_block_ids:
            first = place[row] * width + int(self._table.num_blocks[row]) - len(block_ids)
            offsets += range(first, first + len(block_ids))
            ids += block_ids
        arrays = [np.array(offsets, dtype=np.int32), np.array(ids, dtype=np.int32)]
        at, values = staging.pack(arrays, self._device)
        self._state.tables.view(-1).index_copy_(0, at.long(), values)

    def run(self) -> None:
        """One step of the batch that is loaded; kernel by kernel if no graph of its kind was captured."""
        if self._key in self._graphs:
            self._graphs[self._key].replay()
        elif self._key:
            self._record(self._bucket(self._key.bucket), self._key)

    def _keys(self, bucket: Bucket) -> list[GraphKey]:
        """A batch too small to save enough by sharing has no graphs for it."""
        sharing = (False, True) if bucket.num_rows >= 16 else (False,)
        return [GraphKey(bucket.num_rows, is_greedy, shares) for is_greedy in (True, False) for shares in sharing]

    def _bucket(self, num_rows: int) -> Bucket:
        return next(bucket for bucket in self._buckets if bucket.num_rows >= num_rows)

    def _make_bucket(self, size: int, linear_plans: dict[int, LinearPlan]) -> Bucket:
        config = self._model.weights.config
        return Bucket(
            size,
            plan_for(linear_plans, size),
            DecodePlan.allocate(size, config.num_heads, config.num_kv_heads, config.head_dim, self._device),
            SamplingWorkspace.allocate(size, config.vocab_size, self._device),
            pdl=size <= _MAX_PDL_ROWS and has_pdl(self._device),
        )

    def _record(self, bucket: Bucket, key: GraphKey) -> None:
        """One decode step. `advance_plan` is last: the next step reads lengths and plan before it waits."""
        size, pdl, model, state = bucket.num_rows, bucket.pdl, self._model, self._state
        rows, lengths, tables = state.rows[:size], state.lengths[:size], state.tables[:size]
        prefix = self._prefix if key.has_prefix else None

        def attend(index: int, qkv: Tensor, out: Tensor) -> None:
            keys, values = self._caches[index]
            rotary = model.weights.layers[index].rotary
            if prefix is not None:
                tiles = (state.tile_rows, state.tile_lens)
                prefix_attention(qkv, keys, values, tables, lengths, *tiles, rotary, self._scale, prefix, pdl=pdl)
            decode_attention(
                qkv, keys, values, tables, lengths, bucket.plan, rotary, self._scale, out, prefix=prefix, pdl=pdl
            )

        embed(self._row_tokens, model.weights.embedding, model.hidden[:size], rows=rows, pdl=pdl)
        if bucket.linear.is_single_row:
            logits = model.run_single(attend, bucket.linear, pdl=pdl)
        else:
            logits = model.compute_logits(model.run(size, attend, bucket.linear, pdl=pdl), bucket.linear, pdl=pdl)
        if key.is_greedy:
            greedy(logits, bucket.sampling, self._row_tokens, rows=rows, pdl=pdl)
        else:
            params = state.sampling(size)
            sample(logits, params, lengths, bucket.sampling, self._row_tokens, rows=rows, pdl=pdl)
        advance_plan(bucket.plan, lengths, state.shared_lens[:size], advance=True, pdl=pdl)


class DecodeState:
    """The loaded batch on the device, at fixed addresses. One row of integers each, so that one copy sets them all."""

    def __init__(self, num_rows: int, max_blocks: int, tile_width: int, device: torch.device) -> None:
        self._num_rows = num_rows
        num_tiles = max_tiles(num_rows, tile_width)
        stride = -(-num_rows // 4) * 4
        num_fields = 3 + len(SAMPLING_FIELDS)
        self._header = torch.zeros(num_fields * stride + num_tiles * (tile_width + 1), dtype=torch.int32, device=device)
        fields = self._header[: num_fields * stride].view(num_fields, stride)
        self._stride, self._num_fields = stride, num_fields
        self.rows, self.lengths, self.shared_lens = (fields[i, :num_rows] for i in range(3))
        self._sampling = fields[3:]
        tiles = self._header[num_fields * stride :]
        self.tile_rows = tiles[: num_tiles * tile_width].view(num_tiles, tile_width)
        self.tile_lens = tiles[num_tiles * tile_width :]
        self.tables = torch.zeros(num_rows, max_blocks, dtype=torch.int32, device=device)
        self.lengths.fill_(-1)
        self.rows.fill_(num_rows)

    def load(
        self,
        rows: Int32Array,
        lengths: Int32Array,
        blocks: Int32Array,
        tiles: PrefixTiles,
        sampling: Int32Array,
        staging: Staging,
    ) -> None:
        num_rows, (num_tiles, width) = len(rows), tiles.tile_rows.shape
        fields = np.zeros((self._num_fields, self._stride), dtype=np.int32)
        fields[0], fields[1] = self._num_rows, -1
        for field, values in enumerate((rows, lengths, tiles.shared_lens, *sampling)):
            fields[field, :num_rows] = values
        tile_rows = np.full(self.tile_rows.shape, -1, dtype=np.int32)
        tile_rows[:num_tiles, :width] = tiles.tile_rows
        tile_lens = np.zeros(self.tile_lens.shape, dtype=np.int32)
        tile_lens[:num_tiles] = tiles.tile_lens
        header = np.concatenate([fields.reshape(-1), tile_rows.reshape(-1), tile_lens])
        on_device, tables = staging.pack([header, blocks], self._header.device)
        self._header.copy_(on_device)
        self.tables[:num_rows, : blocks.shape[1]] = tables

    def sampling(self, num_rows: int) -> SamplingTensors:
        """Views of the parameters of the first rows."""
        temperature, top_k, top_p, min_p, seeds = (field[:num_rows] for field in self._sampling)
        as_float = torch.float32
        return SamplingTensors(temperature.view(as_float), top_k, top_p.view(as_float), min_p.view(as_float), seeds)
