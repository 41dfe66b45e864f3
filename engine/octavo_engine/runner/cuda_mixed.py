"""Steps that contain prompts: decodes first, then chunks of prompts, in one pass that is launched kernel by kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from octavo_engine.core.batch import Batch
from octavo_engine.runner.cuda_decode import KvCaches
from octavo_engine.runner.cuda_model import CudaModel, LinearPlan
from octavo_engine.runner.cuda_staging import Staging
from octavo_engine.runner.cuda_table import CudaRowTable, Int32Array
from octavo_kernels.decode_attention import DecodePlan, advance_plan, decode_attention
from octavo_kernels.embedding import embed
from octavo_kernels.prefill_attention import prefill_attention
from octavo_kernels.rotary import rotary_kv_write
from octavo_kernels.sampling import SamplingTensors, SamplingWorkspace, greedy, sample


@dataclass(frozen=True, slots=True)
class MixedInputs:
    """One pass as arrays: `num_decodes` rows that add one token, then the chunks, tokens of a sequence adjacent."""

    decode_rows: Int32Array
    decode_lengths: Int32Array
    decode_blocks: Int32Array
    token_ids: Int32Array
    positions: Int32Array
    slots: Int32Array
    query_starts: Int32Array
    context_lens: Int32Array
    chunk_blocks: Int32Array
    sampled: Int32Array
    sampled_rows: Int32Array
    sampled_positions: Int32Array

    @property
    def num_decodes(self) -> int:
        return len(self.decode_rows)

    @property
    def num_tokens(self) -> int:
        return len(self.decode_rows) + len(self.token_ids)


def mixed_inputs(batch: Batch, table: CudaRowTable) -> MixedInputs:
    """A sequence is a decode if its one new token was sampled on the device; any other new token is in the table."""
    rows, query_lens, computed = (
        np.array(values, dtype=np.int32) for values in (batch.rows, batch.num_new_tokens, batch.num_computed)
    )
    is_sampling = np.array(batch.is_sampling, dtype=bool)
    is_decode = (query_lens == 1) & (computed >= table.num_known_tokens[rows])
    decodes, chunks = np.flatnonzero(is_decode), np.flatnonzero(~is_decode)
    lens, context = query_lens[chunks], computed[chunks]
    starts = np.cumsum([0, *lens], dtype=np.int32)
    num_chunk_tokens = int(starts[-1])
    token_rows = np.repeat(rows[chunks], lens)
    positions = np.arange(num_chunk_tokens, dtype=np.int32) + np.repeat(context - starts[:-1], lens)
    slot_blocks = table.blocks[token_rows, positions // table.block_size]
    ends = np.concatenate([np.arange(len(decodes)), len(decodes) + starts[1:] - 1]).astype(np.int32)
    order = np.concatenate([decodes, chunks])
    is_sampled = is_sampling[order]
    return MixedInputs(
        decode_rows=rows[decodes],
        decode_lengths=computed[decodes],
        decode_blocks=_blocks(table, rows[decodes]),
        token_ids=table.tokens[token_rows, positions],
        positions=positions.astype(np.int32),
        slots=(slot_blocks * table.block_size + positions % table.block_size).astype(np.int32),
        query_starts=starts,
        context_lens=context,
        chunk_blocks=_blocks(table, rows[chunks]),
        sampled=ends[is_sampled],
        sampled_rows=rows[order][is_sampled],
        sampled_positions=(computed + query_lens - 1)[order][is_sampled],
    )


def _blocks(table: CudaRowTable, rows: Int32Array) -> Int32Array:
    """Padded to a multiple of four columns, which keeps the kernels' view of their alignment the same."""
    num_blocks = int(table.num_blocks[rows].max()) if len(rows) else 1
    return table.blocks[rows, : min(-(-num_blocks // 4) * 4, table.blocks.shape[1])]


class MixedSteps:
    def __init__(self, model: CudaModel, caches: KvCaches, row_tokens: Tensor, table: CudaRowTable) -> None:
        self._model, self._caches, self._row_tokens, self._table = model, caches, row_tokens, table
        config, device = model.weights.config, row_tokens.device
        num_rows = len(row_tokens) - 1
        self._scale = config.head_dim**-0.5
        self._plan = DecodePlan.allocate(num_rows, config.num_heads, config.num_kv_heads, config.head_dim, device)
        self._sampling = SamplingWorkspace.allocate(num_rows, config.vocab_size, device)

    @property
    def max_num_tokens(self) -> int:
        return len(self._model.hidden)

    def run(self, inputs: MixedInputs, staging: Staging) -> None:
        """Compute the pass; the sampled tokens become their rows' last tokens."""
        arrays = [getattr(inputs, name) for name in MixedInputs.__slots__]
        on_device = dict(zip(MixedInputs.__slots__, staging.pack(arrays, self._row_tokens.device), strict=True))
        self._embed(inputs, on_device)
        num_decodes = inputs.num_decodes
        if num_decodes:
            lengths = on_device["decode_lengths"]
            advance_plan(self._plan, lengths, torch.zeros_like(lengths), advance=False)
        max_query_len = int(np.diff(inputs.query_starts).max(initial=0))

        def attend(index: int, qkv: Tensor, out: Tensor) -> None:
            # New KV of prompts is written first: another row of this pass may share the blocks.
            if max_query_len:
                self._write_chunks(index, qkv[num_decodes:], on_device)
            if num_decodes:
                self._attend_decodes(index, qkv[:num_decodes], out[:num_decodes], on_device)
            if max_query_len:
                self._attend_chunks(index, qkv[num_decodes:], out[num_decodes:], max_query_len, on_device)

        states = self._model.run(inputs.num_tokens, attend, LinearPlan(), pdl=False)
        if len(inputs.sampled):
            self._sample(inputs, states[on_device["sampled"].long()], on_device)

    def _embed(self, inputs: MixedInputs, on_device: dict[str, Tensor]) -> None:
        table, hidden, split = self._model.weights.embedding, self._model.hidden, inputs.num_decodes
        if split:
            embed(self._row_tokens, table, hidden[:split], rows=on_device["decode_rows"])
        if inputs.num_tokens > split:
            embed(on_device["token_ids"], table, hidden[split : inputs.num_tokens])

    def _write_chunks(self, index: int, qkv: Tensor, on_device: dict[str, Tensor]) -> None:
        rotary = self._model.weights.layers[index].rotary
        rotary_kv_write(qkv, on_device["positions"], on_device["slots"], rotary, *self._caches[index])

    def _attend_decodes(self, index: int, qkv: Tensor, out: Tensor, on_device: dict[str, Tensor]) -> None:
        rotary = self._model.weights.layers[index].rotary
        tables, lengths = on_device["decode_blocks"], on_device["decode_lengths"]
        decode_attention(qkv, *self._caches[index], tables, lengths, self._plan, rotary, self._scale, out)

    def _attend_chunks(
        self, index: int, qkv: Tensor, out: Tensor, max_query_len: int, on_device: dict[str, Tensor]
    ) -> None:
        starts, contexts = on_device["query_starts"], on_device["context_lens"]
        tables = on_device["chunk_blocks"]
        prefill_attention(qkv, *self._caches[index], tables, starts, contexts, max_query_len, self._scale, out)

    def _sample(self, inputs: MixedInputs, states: Tensor, on_device: dict[str, Tensor]) -> None:
        logits = self._model.compute_logits(states, LinearPlan(), pdl=False)
        rows = on_device["sampled_rows"]
        if self._table.is_greedy[inputs.sampled_rows].all():
            greedy(logits, self._sampling, self._row_tokens, rows=rows)
            return
        bits = torch.from_numpy(self._table.sampling(inputs.sampled_rows)).to(rows.device)
        temperature, top_k, top_p, min_p, seeds = bits
        floats = [field.view(torch.float32) for field in (temperature, top_p, min_p)]
        params = SamplingTensors(floats[0], top_k, floats[1], floats[2], seeds)
        positions = on_device["sampled_positions"]
        sample(logits, params, positions, self._sampling, self._row_tokens, rows=rows)
