"""POST /v1/chat/completions: a conversation goes on."""

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from octavo_engine.server.answers import Choice, Usage, collect, events, header
from octavo_engine.server.dependencies import ServiceOf
from octavo_engine.server.generation import Service
from octavo_engine.server.pieces import Piece
from octavo_engine.server.prompts import check_prompts, encode_chat
from octavo_engine.server.protocol import ChatBody
from octavo_engine.server.responses import JSONResponse
from octavo_engine.server.sse import EventStream, unless_disconnected

router = APIRouter()


@router.post("/v1/chat/completions")
async def create_chat_completion(body: ChatBody, request: Request, service: ServiceOf) -> Response:
    return await unless_disconnected(request, _chat(body, service))


async def _chat(body: ChatBody, service: Service) -> Response:
    service.check_body(body)
    prompt = await encode_chat(service.tokenizer, body.messages, service.max_len)
    max_tokens = body.max_completion_tokens or body.max_tokens
    max_tokens = check_prompts([prompt], max_tokens, service.engine.ready, service.max_len, "messages")
    usage = Usage(len(prompt), num_choices=body.num_choices)
    pieces = service.generate([prompt], body.sampling_params(max_tokens), body.num_choices, body.priority)
    if body.stream:
        head = header("chatcmpl", "chat.completion.chunk", service.model)
        return await EventStream.start(events(pieces, head, _deltas(), usage, body.wants_usage))
    head = header("chatcmpl", "chat.completion", service.model)
    choices = await collect(pieces, body.num_choices, usage)
    return JSONResponse({**head, "choices": [_choice(*item) for item in enumerate(choices)], "usage": usage.as_json()})


def _choice(index: int, choice: Choice) -> dict[str, Any]:
    return {
        "index": index,
        "message": {"role": "assistant", "content": choice.text, "refusal": None},
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
    }


def _deltas() -> Callable[[Piece], dict[str, Any]]:
    """The first delta of each choice names the role."""
    started: set[int] = set()

    def delta(piece: Piece) -> dict[str, Any]:
        content: dict[str, Any] = {"content": piece.text} if piece.text else {}
        if piece.choice not in started:
            started.add(piece.choice)
            content = {"role": "assistant", **content}
        return {
            "index": piece.choice,
            "delta": content,
            "logprobs": None,
            "finish_reason": piece.finish_reason,
            "stop_reason": piece.stop_reason,
        }

    return delta
