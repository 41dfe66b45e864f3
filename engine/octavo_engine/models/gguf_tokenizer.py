"""Builds tokenizer.json and tokenizer_config.json from the vocabulary inside a GGUF file."""

from typing import Any

from octavo_engine.errors import ModelError
from octavo_engine.models.gguf_file import GGUFFile

_CONTROL, _USER_DEFINED = 3, 4


def tokenizer_json(gguf: GGUFFile) -> dict[str, Any]:
    """A byte-level BPE in the format of the `tokenizers` library, equal to what llama.cpp does for `smollm`.

    Raises `ModelError` for another tokenizer model or pre-tokenizer.
    """
    model, pre = gguf["tokenizer.ggml.model"], gguf["tokenizer.ggml.pre"]
    if (model, pre) != ("gpt2", "smollm"):
        raise ModelError(f"GGUF tokenizer {model!r} with pre-tokenizer {pre!r} is not supported")
    tokens: list[str] = gguf["tokenizer.ggml.tokens"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(tokens, gguf["tokenizer.ggml.token_type"]),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, _byte_level()],
        },
        "post_processor": None,
        "decoder": _byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in gguf["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_config_json(gguf: GGUFFile) -> dict[str, Any]:
    tokens: list[str] = gguf["tokenizer.ggml.tokens"]
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": bool(gguf.get("tokenizer.ggml.add_bos_token", False)),
        "clean_up_tokenization_spaces": False,
        "model_max_length": gguf["llama.context_length"],
    }
    ids = {"bos_token": "bos_token_id", "eos_token": "eos_token_id"}
    ids |= {"unk_token": "unknown_token_id", "pad_token": "padding_token_id"}
    for name, key in ids.items():
        token_id = gguf.get(f"tokenizer.ggml.{key}")
        if token_id is not None:
            config[name] = tokens[token_id]
    template = gguf.get("tokenizer.chat_template")
    return config | ({"chat_template": template} if template else {})


def _byte_level() -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def _added_tokens(tokens: list[str], types: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "id": token_id,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for token_id, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
