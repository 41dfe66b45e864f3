"""The request bodies of the OpenAI API, as far as they work here.

Nothing is silently ignored: a field that OpenAI or vLLM has and this server lacks is refused by name, unless its value
asks for what happens anyway. Fields that only label a request for its sender are accepted.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from octavo_engine.errors import InvalidRequest
from octavo_engine.sampling_params import SamplingParams
from octavo_engine.server.errors import unknown_field
from octavo_engine.server.unsupported import LABELS, MESSAGE_FIELDS, REQUEST_FIELDS, NeutralValues, is_neutral

TokenId = Annotated[int, Field(ge=0, lt=2**31)]


def _check_unicode(text: str) -> str:
    """JSON can spell half a surrogate pair, which no tokenizer takes."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("not valid Unicode, for it has half of a surrogate pair")
    return text


Text = Annotated[str, AfterValidator(_check_unicode)]
StopString = Annotated[Text, Field(min_length=1, max_length=1000)]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    not_supported: ClassVar[NeutralValues] = REQUEST_FIELDS

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        unknown = data.keys() - cls.model_fields.keys()
        for name in sorted(unknown):
            cls._check_unknown(name, data[name])
        return {name: value for name, value in data.items() if name not in unknown}

    @classmethod
    def _check_unknown(cls, name: str, value: Any) -> None:
        if name in LABELS:
            return
        if name not in cls.not_supported:
            raise unknown_field(name, cls.model_fields)
        if not is_neutral(value, cls.not_supported[name]):
            raise InvalidRequest(f"{name!r} is not supported by this server; remove it", field=name)


class StreamOptions(Body):
    include_usage: bool | None = None


class GenerationBody(Body):
    """What completions and chat completions have in common."""

    model: str
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=2**31, description="0 and -1 mean all tokens")
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    n: int | None = Field(None, ge=1, description="number of answers to each prompt")
    stop: StopString | Annotated[list[StopString], Field(max_length=16)] | None = None
    stop_token_ids: Annotated[list[TokenId], Field(max_length=128)] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    priority: int = Field(0, ge=-(2**31), lt=2**31, description="smaller is more urgent")
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @model_validator(mode="after")
    def _check_stream_options(self) -> "GenerationBody":
        if self.stream_options and not self.stream:
            raise InvalidRequest("'stream_options' needs 'stream': true", field="stream_options")
        return self

    @property
    def num_choices(self) -> int:
        return self.n or 1

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def sampling_params(self, max_tokens: int) -> SamplingParams:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=max(0, self.top_k or 0),
            seed=None if self.seed is None else self.seed & (2**63 - 1),
            stop=tuple(stop),
            stop_token_ids=tuple(self.stop_token_ids or ()),
            include_stop_str_in_output=self.include_stop_str_in_output,
            ignore_eos=self.ignore_eos,
        )


class CompletionBody(GenerationBody):
    prompt: Text | list[TokenId] | list[Text] | list[list[TokenId]]

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        if isinstance(self.prompt, str):
            return [self.prompt]
        is_one = bool(self.prompt) and isinstance(self.prompt[0], int)
        return [self.prompt] if is_one else self.prompt  # type: ignore[return-value]


class TextPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    type: Literal["text"]
    text: Text


class ChatMessage(Body):
    not_supported: ClassVar[NeutralValues] = MESSAGE_FIELDS

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]
    name: Text | None = None

    def as_template_input(self) -> dict[str, str]:
        content = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        message = {"role": "system" if self.role == "developer" else self.role, "content": content}
        return message | ({"name": self.name} if self.name else {})


class ChatBody(GenerationBody):
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: int | None = Field(None, ge=1)
    parallel_tool_calls: bool | None = Field(None, description="without effect, for there are no tools")

    @model_validator(mode="after")
    def _check_limits(self) -> "ChatBody":
        if self.max_tokens and self.max_completion_tokens and self.max_tokens != self.max_completion_tokens:
            raise InvalidRequest(
                "'max_tokens' and 'max_completion_tokens' differ; send one of them", field="max_completion_tokens"
            )
        return self


class TokenizeBody(Body):
    not_supported: ClassVar[NeutralValues] = {}

    model: str | None = None
    prompt: Text | None = None
    messages: list[ChatMessage] | None = None

    @model_validator(mode="after")
    def _check_one(self) -> "TokenizeBody":
        if (self.prompt is None) == (not self.messages):
            raise InvalidRequest("send either 'prompt' or 'messages'", field="prompt")
        return self


class DetokenizeBody(Body):
    not_supported: ClassVar[NeutralValues] = {}

    model: str | None = None
    tokens: list[TokenId]
