"""Conversion of the bundled GGUF, on a small file written here and on the real one."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors import safe_open

from octavo_engine.errors import ModelError
from octavo_engine.models import convert, resolve_model
from octavo_engine.models.gguf_convert import bfloat16_bits, convert_gguf
from octavo_engine.models.gguf_file import hugging_face_name, split_rotary_halves

HEADS, KV_HEADS, HIDDEN, MLP = 4, 2, 32, 64


def write_gguf(path: Path, architecture: str = "llama", pre: str = "smollm", **tensors: Any) -> Path:
    writer = GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(MLP)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(["<|end|>", "a", "b", "ab"])
    writer.add_token_types([3, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(0)
    for name, tensor in (tensors or layer_tensors()).items():
        writer.add_tensor(name, tensor, raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def layer_tensors() -> dict[str, Any]:
    shapes = {
        "token_embd": (4, HIDDEN),
        "output_norm": (HIDDEN,),
        "blk.0.attn_norm": (HIDDEN,),
        "blk.0.attn_q": (HIDDEN, HIDDEN),
        "blk.0.attn_k": (HIDDEN // 2, HIDDEN),
        "blk.0.attn_v": (HIDDEN // 2, HIDDEN),
        "blk.0.attn_output": (HIDDEN, HIDDEN),
        "blk.0.ffn_norm": (HIDDEN,),
        "blk.0.ffn_gate": (MLP, HIDDEN),
        "blk.0.ffn_up": (MLP, HIDDEN),
        "blk.0.ffn_down": (HIDDEN, MLP),
    }
    generator = np.random.default_rng(0)
    return {f"{name}.weight": generator.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def test_a_directory_has_what_the_file_says(tmp_path: Path) -> None:
    directory = convert_gguf(write_gguf(tmp_path / "m.gguf"), tmp_path / "out")
    config = json.loads((directory / "config.json").read_text())
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (HEADS, KV_HEADS)
    assert config["tie_word_embeddings"] is True
    assert config["eos_token_id"] == 0
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    assert [token["content"] for token in tokenizer["added_tokens"]] == ["<|end|>"]
    assert tokenizer["model"]["merges"] == [["a", "b"]]


def test_query_and_key_rows_are_put_back_in_order(tmp_path: Path) -> None:
    directory = convert_gguf(write_gguf(tmp_path / "m.gguf"), tmp_path / "out")
    with safe_open(directory / "model.safetensors", framework="pt") as weights:
        query = weights.get_tensor("model.layers.0.self_attn.q_proj.weight").float().numpy()
        value = weights.get_tensor("model.layers.0.self_attn.v_proj.weight").float().numpy()
    tensors = layer_tensors()
    interleaved = tensors["blk.0.attn_q.weight"].reshape(HEADS, -1, HIDDEN)
    restored = np.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=1).reshape(HIDDEN, HIDDEN)
    np.testing.assert_allclose(query, restored, rtol=2**-8)
    np.testing.assert_allclose(value, tensors["blk.0.attn_v.weight"], rtol=2**-8)


def test_splitting_halves_undoes_interleaving() -> None:
    weight = np.arange(24, dtype=np.float32).reshape(12, 2)
    interleaved = weight.reshape(3, 2, 2, 2).swapaxes(1, 2).reshape(12, 2)
    np.testing.assert_array_equal(split_rotary_halves(interleaved, num_heads=3), weight)


def test_conversion_gives_the_same_bytes_every_time(tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "m.gguf")
    first, second = (convert_gguf(gguf, tmp_path / name) for name in ("one", "two"))
    files = sorted(path.name for path in first.iterdir())
    assert files == sorted(path.name for path in second.iterdir())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files)


def test_bfloat16_rounds_to_nearest_even() -> None:
    import torch

    values = np.random.default_rng(0).standard_normal(10_000, dtype=np.float32)
    values[:3] = (1.00390625, 1.01171875, 0.0)
    wanted = torch.from_numpy(values).bfloat16().view(torch.uint16).numpy()
    np.testing.assert_array_equal(bfloat16_bits(values), wanted)


def test_a_conversion_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    strange: dict[str, Any] = {"blk.0.strange.weight": np.zeros((2, 32), dtype=np.float32)}
    gguf = write_gguf(tmp_path / "m.gguf", **strange)
    with pytest.raises(ModelError, match="no place in a llama model"):
        convert_gguf(gguf, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"architecture": "gemma"}, "architecture 'gemma'"), ({"pre": "llama-bpe"}, "pre-tokenizer 'llama-bpe'")],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        convert_gguf(write_gguf(tmp_path / "m.gguf", **options), tmp_path / "out")


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"not a model, but long enough to have a header")
    with pytest.raises(ModelError, match="not a readable GGUF"):
        convert(str(tmp_path / "m.gguf"), tmp_path / "out")
    with pytest.raises(ModelError, match="no GGUF file"):
        convert(str(tmp_path / "absent.gguf"), tmp_path / "out")


def test_tensors_have_their_hugging_face_names() -> None:
    assert hugging_face_name("blk.7.ffn_down.weight") == "model.layers.7.mlp.down_proj.weight"
    assert hugging_face_name("output.weight") == "lm_head.weight"
    assert hugging_face_name("rope_freqs.weight") is None


@pytest.mark.model
def test_the_bundled_model_is_converted_once_by_whoever_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path))
    monkeypatch.delenv("OCTAVO_MODELS", raising=False)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(resolve_model("bundled://smollm2-135m-instruct")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tmp_path / "models" / "smollm2-135m-instruct"] * 2
    written = (found[0] / "model.safetensors").stat().st_mtime_ns
    resolve_model("bundled://smollm2-135m-instruct")
    assert (found[0] / "model.safetensors").stat().st_mtime_ns == written


@pytest.mark.model
def test_a_model_of_the_image_is_taken_as_it_is(
    smollm2_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "smollm2-135m-instruct").symlink_to(smollm2_directory)
    monkeypatch.setenv("OCTAVO_MODELS", str(tmp_path))
    assert resolve_model("bundled://smollm2-135m-instruct") == tmp_path / "smollm2-135m-instruct"
