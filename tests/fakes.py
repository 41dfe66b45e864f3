"""Stand-ins that are passed in where the real part is slow or random. Shared by all tests."""

import os
import random
import time
import zlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl

import tokenizers
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from octavo_engine.config import EngineConfig
from octavo_engine.core.batch import Batch, ModelRunner, NewRow, StepResult
from octavo_engine.errors import ModelError, OutOfDeviceMemory
from octavo_engine.messages import EngineReady
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.tokenizer import Tokenizer
from octavo_engine.tokenizer.chat_template import ChatTemplate

VOCAB_SIZE = 1000
SLOT_BYTES = 8


def _mix(*values: int) -> bytes:
    """What one layer stores for one token: eight bytes that depend on all values."""
    data = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
    return zlib.crc32(data).to_bytes(4, "little") + zlib.adler32(data).to_bytes(4, "little")


def _sample(digest: int, params: SamplingParams, num_draws: int) -> int:
    """The next token: a function of all KV that was read and, unless greedy, of (seed, draw)."""
    if params.is_greedy:
        return digest % VOCAB_SIZE
    return zlib.crc32(_mix(digest, params.seed or 0, num_draws)) % VOCAB_SIZE


class FakeKVCache:
    """Two layers of paged KV. Slots that nobody wrote hold noise, so that reading one changes the tokens."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        noise = random.Random(0)
        self.block_size = block_size
        self.layers = [bytearray(noise.randbytes(num_blocks * block_size * SLOT_BYTES)) for _ in range(2)]

    def write(self, layer: int, block_ids: list[int], position: int, value: bytes) -> None:
        start = self._offset(block_ids[position // self.block_size], position % self.block_size)
        self.layers[layer][start : start + SLOT_BYTES] = value

    def digest(self, layer: int, block_ids: list[int], start: int, stop: int, digest: int = 0) -> int:
        """The checksum of slots `start` to `stop` of a sequence, continued from `digest`."""
        while start < stop:
            block, first = divmod(start, self.block_size)
            last = min(self.block_size, first + stop - start)
            begin = self._offset(block_ids[block], first)
            digest = zlib.crc32(self.layers[layer][begin : begin + (last - first) * SLOT_BYTES], digest)
            start += last - first
        return digest

    def copy(self, source: int, destination: int) -> None:
        size = self.block_size * SLOT_BYTES
        for layer in self.layers:
            layer[destination * size : (destination + 1) * size] = layer[source * size : (source + 1) * size]

    def _offset(self, block_id: int, slot: int) -> int:
        return (block_id * self.block_size + slot) * SLOT_BYTES


@dataclass(slots=True)
class _Row:
    token_ids: list[int]
    block_ids: list[int]
    params: SamplingParams
    num_prompt_tokens: int


class FakePendingStep:
    def __init__(self, runner: "FakeModelRunner") -> None:
        self._runner = runner
        self.outcome: StepResult | None = None

    def result(self) -> StepResult:
        while self.outcome is None:
            self._runner.run_next()
        return self.outcome


class FakeModelRunner:
    """A model whose next token is a checksum of all the KV that it can read through the block tables.

    Like a transformer of two layers: what layer 0 stores depends on token and position, what layer 1 stores on
    everything that layer 0 stored before. A wrong block table, an evicted block still in use, a wrong prefix hit, a
    slot written twice or a missing copy therefore changes the tokens, which `expected_tokens` says without paging.
    Steps run when their result is read, as late as a device could run them.

    `poisoned_token` in a row makes its logits not finite. A step of more than `num_tokens_that_fit` runs out of memory.
    """

    def __init__(
        self,
        config: EngineConfig,
        num_blocks: int,
        max_inflight_steps: int = 1,
        max_model_len: int = 1 << 20,
        poisoned_token: int | None = None,
        num_tokens_that_fit: int = 1 << 20,
    ) -> None:
        self.num_blocks = num_blocks
        self.max_model_len = max_model_len
        self.max_inflight_steps = max_inflight_steps
        self.batches: list[Batch] = []
        self._max_num_rows = config.max_num_seqs
        self._max_num_tokens = config.max_num_batched_tokens
        self._poisoned_token = poisoned_token
        self._num_tokens_that_fit = num_tokens_that_fit
        self._kv = FakeKVCache(num_blocks, config.block_size)
        self._rows: dict[int, _Row] = {}
        self._queue: deque[tuple[Batch, FakePendingStep]] = deque()

    def submit(self, batch: Batch) -> FakePendingStep:
        pending = FakePendingStep(self)
        self.batches.append(batch)
        self._queue.append((batch, pending))
        assert len(self._queue) <= self.max_inflight_steps, "more steps in flight than allowed"
        return pending

    def run_next(self) -> None:
        batch, pending = self._queue.popleft()
        if batch.num_tokens > self._num_tokens_that_fit:
            self._queue.clear()
            raise OutOfDeviceMemory(f"{batch.num_tokens} tokens do not fit")
        self._update_rows(batch)
        self._check(batch)
        digests = self._forward(batch)
        pending.outcome = StepResult([self._next_token(self._rows[row], digest) for row, digest in digests])

    def _update_rows(self, batch: Batch) -> None:
        for new in batch.new_rows:
            assert 0 <= new.row < self._max_num_rows
            self._rows[new.row] = self._row(new)
        for row, block_ids in batch.new_block_ids:
            self._rows[row].block_ids += block_ids
        for source, destination in batch.block_copies:
            self._kv.copy(source, destination)

    def _row(self, new: NewRow) -> _Row:
        return _Row(list(new.token_ids), list(new.block_ids), new.params, new.num_prompt_tokens)

    def _check(self, batch: Batch) -> None:
        assert len(set(batch.rows)) == len(batch.rows), "a row is in the batch twice"
        assert 0 < batch.num_tokens <= self._max_num_tokens
        written: set[int] = set()
        for row, count, start, is_sampling in self._entries(batch):
            assert count > 0
            assert start + count <= len(self._rows[row].token_ids), "a token is computed before it is known"
            assert is_sampling == (start + count == len(self._rows[row].token_ids))
            first, last = start // self._kv.block_size, (start + count - 1) // self._kv.block_size
            blocks = set(self._rows[row].block_ids[first : last + 1])
            assert not blocks & written, "two rows write to one block"
            written |= blocks

    def _entries(self, batch: Batch) -> Iterable[tuple[int, int, int, bool]]:
        return zip(batch.rows, batch.num_new_tokens, batch.num_computed, batch.is_sampling, strict=True)

    def _forward(self, batch: Batch) -> list[tuple[int, int]]:
        """Layer by layer, first all writes, then all reads; returns (row, last layer's digest) of the sampling rows."""
        inputs = {
            row: self._rows[row].token_ids[start : start + count] for row, count, start, _ in self._entries(batch)
        }
        for layer in range(2):
            for row, _, start, _ in self._entries(batch):
                for i, value in enumerate(inputs[row]):
                    self._kv.write(layer, self._rows[row].block_ids, start + i, _mix(layer, value, start + i))
            inputs = {row: self._attend(layer, row, start, count) for row, count, start, _ in self._entries(batch)}
        return [(row, inputs[row][-1]) for row, _, _, is_sampling in self._entries(batch) if is_sampling]

    def _attend(self, layer: int, row: int, start: int, count: int) -> list[int]:
        block_ids = self._rows[row].block_ids
        digests = [self._kv.digest(layer, block_ids, 0, start + 1)]
        for position in range(start + 1, start + count):
            digests.append(self._kv.digest(layer, block_ids, position, position + 1, digests[-1]))
        return digests

    def _next_token(self, row: _Row, digest: int) -> int | None:
        token_id = _sample(digest, row.params, len(row.token_ids) - row.num_prompt_tokens)
        is_poisoned = self._poisoned_token is not None and self._poisoned_token in row.token_ids
        row.token_ids.append(token_id)
        return None if is_poisoned else token_id


def expected_tokens(prompt: list[int], params: SamplingParams, stop_token_ids: Iterable[int] = ()) -> list[int]:
    """What FakeModelRunner generates, computed over one plain list of values without blocks, batches or caches."""
    stops = {*stop_token_ids, *params.stop_token_ids}
    digests, output = [0, 0], list[int]()
    for position in range(len(prompt) + params.max_tokens - 1):
        value = prompt[position] if position < len(prompt) else output[position - len(prompt)]
        for layer in range(2):
            digests[layer] = zlib.crc32(_mix(layer, value, position), digests[layer])
            value = digests[layer]
        if position >= len(prompt) - 1:
            output.append(_sample(digests[1], params, len(output)))
            if output[-1] in stops:
                break
    return output


class UnreliableRunner(FakeModelRunner):
    """Raises, hangs or is slow in its nth step, as the options of `load_fake_runner` say."""

    def __init__(self, config: EngineConfig, num_blocks: int, options: dict[str, str]) -> None:
        super().__init__(config, num_blocks, int(options.get("depth", 1)), max_model_len=num_blocks * config.block_size)
        self._crash_at = int(options.get("crash_at", -1))
        self._exit_at = int(options.get("exit_at", -1))
        self._hang_at = int(options.get("hang_at", -1))
        self._step_seconds = float(options.get("step_seconds", 0))
        self._num_steps = 0

    def run_next(self) -> None:
        self._num_steps += 1
        if self._num_steps == self._crash_at:
            raise RuntimeError("the device fell off the bus")
        if self._num_steps == self._exit_at:
            os._exit(3)
        time.sleep(3600 if self._num_steps == self._hang_at else self._step_seconds)
        super().run_next()


def load_fake_runner(config: EngineConfig) -> tuple[ModelRunner, EngineReady]:
    """A runner factory as an engine takes it: `tests.fakes:load_fake_runner`.

    `config.model` reads `fake://BLOCKS?depth=2&step_seconds=0.01&crash_at=5&exit_at=5&hang_at=5&eos=7&fail=reason`; all
    options may be left out.
    """
    name, _, query = config.model.removeprefix("fake://").partition("?")
    options = dict(parse_qsl(query))
    if reason := options.get("fail"):
        raise ModelError(reason)
    runner = UnreliableRunner(config, int(name), options)
    ready = EngineReady(
        model=config.model,
        max_model_len=runner.max_model_len,
        vocab_size=VOCAB_SIZE,
        eos_token_ids=[int(options["eos"])] if "eos" in options else [],
        num_blocks=runner.num_blocks,
        block_size=config.block_size,
        device="cpu",
        dtype="float32",
        attention_backend="fake",
    )
    return runner, ready


BYTE_CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def byte_tokenizer() -> Tokenizer:
    """A token for each byte, numbered in the order of `ByteLevel.alphabet()`, and a simple chat template."""
    vocabulary = {character: token_id for token_id, character in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = tokenizers.Tokenizer(BPE(vocabulary, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    return Tokenizer(tokenizer.to_str(), ChatTemplate(BYTE_CHAT_TEMPLATE, {}))
