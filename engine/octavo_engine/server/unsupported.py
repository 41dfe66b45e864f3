"""Fields of the OpenAI API and of vLLM that this server lacks, with the values that ask for what happens anyway.

A field with such a value is accepted, with any other it is refused by name. Fields that only label a request for its
sender (`LABELS`) are accepted.
"""

from collections.abc import Mapping
from typing import Any

NeutralValues = Mapping[str, tuple[Any, ...]]

LABELS = frozenset(
    {"user", "metadata", "store", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "service_tier"}
)

REQUEST_FIELDS: NeutralValues = {
    "allowed_token_ids": (None,),
    "audio": (None,),
    "bad_words": (None, []),
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "function_call": (None, "none"),
    "functions": (None, []),
    "guided_choice": (None,),
    "guided_grammar": (None,),
    "guided_json": (None,),
    "guided_regex": (None,),
    "length_penalty": (None, 1),
    "logit_bias": (None, {}),
    "logprobs": (None, False),
    "min_p": (None, 0),
    "min_tokens": (None, 0),
    "modalities": (None, ["text"]),
    "prediction": (None,),
    "presence_penalty": (None, 0),
    "prompt_logprobs": (None,),
    "reasoning_effort": (None, "none"),
    "repetition_penalty": (None, 1),
    "response_format": (None, {"type": "text"}),
    "structured_outputs": (None,),
    "suffix": (None, ""),
    "tool_choice": (None, "none"),
    "tools": (None, []),
    "top_logprobs": (None, 0),
    "use_beam_search": (None, False),
    "verbosity": (None,),
    "web_search_options": (None,),
}

MESSAGE_FIELDS: NeutralValues = {
    "annotations": (None, []),
    "audio": (None,),
    "function_call": (None,),
    "refusal": (None,),
    "tool_call_id": (None,),
    "tool_calls": (None, []),
}


def is_neutral(value: Any, neutral_values: tuple[Any, ...]) -> bool:
    """Equality of JSON values, where false is not 0."""
    return any(value == neutral and isinstance(value, bool) == isinstance(neutral, bool) for neutral in neutral_values)
