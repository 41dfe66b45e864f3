"""The offline API over the fake model and a byte tokenizer."""

import subprocess
import sys
from typing import Any

import pytest

from octavo_engine.errors import ConfigError, InvalidRequest
from octavo_engine.llm import LLM
from octavo_engine.sampling_params import SamplingParams
from tests.engine.core_support import make_config
from tests.fakes import byte_tokenizer, expected_tokens, load_fake_runner

GREEDY = SamplingParams(max_tokens=12, temperature=0)


def make_llm(model: str = "fake://64?depth=2", **overrides: Any) -> LLM:
    config = make_config(model=model, **overrides)
    return LLM.from_parts(config, *load_fake_runner(config), byte_tokenizer())


def test_outputs_are_in_the_order_of_the_prompts() -> None:
    llm = make_llm(max_num_seqs=3, max_num_waiting=2)
    prompts = [f"prompt {i}" for i in range(40)]
    params = [SamplingParams(max_tokens=1 + i % 9, temperature=0) for i in range(40)]
    outputs = llm.generate(prompts, params)
    assert [output.prompt for output in outputs] == prompts
    for output, its_params in zip(outputs, params, strict=True):
        assert output.outputs[0].token_ids == expected_tokens(output.prompt_token_ids, its_params)
        assert output.outputs[0].text == llm.tokenizer.decode(output.outputs[0].token_ids)
        assert output.outputs[0].finish_reason == "length"
    assert llm.stats.num_used_blocks == 0


def test_one_prompt_may_be_text_or_token_ids() -> None:
    llm = make_llm()
    (text,) = llm.generate("hello", GREEDY)
    (ids,) = llm.generate(llm.tokenizer.encode("hello"), GREEDY)
    assert text.outputs == ids.outputs
    assert ids.prompt is None
    assert [output.outputs for output in llm.generate([[1, 2], [3]], GREEDY)] == [
        llm.generate([1, 2], GREEDY)[0].outputs,
        llm.generate([3], GREEDY)[0].outputs,
    ]


def test_chat_renders_the_template() -> None:
    llm = make_llm()
    (output,) = llm.chat([{"role": "user", "content": "hi"}], GREEDY)
    assert llm.tokenizer.decode(output.prompt_token_ids) == "[user] hi\n[assistant] "
    assert len(llm.chat([[{"role": "user", "content": "hi"}]] * 3, GREEDY)) == 3


def test_a_stop_string_ends_the_text_before_it_and_frees_the_blocks() -> None:
    llm = make_llm()
    whole = llm.generate("hello", SamplingParams(max_tokens=60, temperature=0))[0].outputs[0]
    stop = next(whole.text[i : i + 2] for i in range(5, len(whole.text)) if whole.text[i : i + 2].isascii())
    (output,) = llm.generate("hello", SamplingParams(max_tokens=60, temperature=0, stop=(stop,)))
    answer = output.outputs[0]
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)
    assert answer.text == whole.text[: whole.text.index(stop)]
    llm.generate("x", GREEDY)
    assert llm.stats.num_used_blocks == 0


def test_the_models_own_end_is_no_stop_reason_and_not_shown() -> None:
    eos = expected_tokens(byte_tokenizer().encode("hello"), GREEDY)[5]
    (output,) = make_llm(f"fake://64?eos={eos}").generate("hello", GREEDY)
    answer = output.outputs[0]
    assert (answer.finish_reason, answer.stop_reason, len(answer.token_ids)) == ("stop", None, 6)


def test_a_stop_token_is_the_stop_reason() -> None:
    stop = expected_tokens(byte_tokenizer().encode("hello"), GREEDY)[5]
    params = SamplingParams(max_tokens=12, temperature=0, stop_token_ids=(stop,))
    answer = make_llm().generate("hello", params)[0].outputs[0]
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)


@pytest.mark.parametrize(
    ("prompt", "params", "message"),
    [
        ("", GREEDY, "prompt 1: it is empty"),
        ([5, 1000], GREEDY, "prompt 1: token id 1000 is outside the vocabulary of 1000 tokens"),
        ([5] * 1020, GREEDY, "1020 tokens [+] max_tokens 12 exceed the limit of 1024"),
        ("a", SamplingParams(max_tokens=0), "max_tokens must be at least 1, got 0"),
        ("a", SamplingParams(temperature=float("nan")), "temperature must be 0 or more, got nan"),
        ("a", SamplingParams(top_p=0.0), "top_p must be above 0"),
        ("a", SamplingParams(top_k=-1), "top_k must be 0"),
        ("a", SamplingParams(stop=("",)), "stop must be a tuple of strings that are not empty"),
        ("a", SamplingParams(stop="x"), "stop must be a tuple"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_request_is_named_before_anything_runs(prompt: Any, params: SamplingParams, message: str) -> None:
    llm = make_llm()
    with pytest.raises(InvalidRequest, match=message):
        llm.generate(["fine", prompt], [GREEDY, params])
    assert llm.stats.steps_total == 0


def test_as_many_params_as_prompts() -> None:
    with pytest.raises(InvalidRequest, match="2 sampling_params for 1 prompts"):
        make_llm().generate(["a"], [GREEDY, GREEDY])


def test_a_failure_in_the_middle_leaves_no_request_behind() -> None:
    llm = make_llm("fake://64?crash_at=4")
    with pytest.raises(RuntimeError, match="fell off the bus"):
        llm.generate(["a", "b"], GREEDY)
    assert (llm.stats.num_running, llm.stats.num_waiting) == (0, 0)


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="block_sise"):
        LLM("bundled://none", block_sise=16)


@pytest.mark.model
def test_the_real_model_answers() -> None:
    llm = LLM("bundled://smollm2-135m-instruct", dtype="float32", max_num_seqs=4, kv_cache_memory_gib=0.1)
    questions = ["What is the capital of France?", "Name the three primary colors."]
    params = SamplingParams(max_tokens=32, temperature=0)
    outputs = llm.chat([[{"role": "user", "content": question}] for question in questions], params)
    assert outputs[0].outputs[0].text == "The capital of France is Paris."
    assert "red" in outputs[1].outputs[0].text.lower()


def test_the_package_and_the_client_import_no_torch() -> None:
    code = (
        "import sys, octavo_engine, octavo_engine.engine_client, octavo_engine.config\n"
        "from octavo_engine import EngineConfig, SamplingParams, SchedulerConfig\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
