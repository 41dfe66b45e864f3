"""POST /v1/completions: a prompt goes on."""

from typing import Any

from fastapi import APIRouter, Request, Response

from octavo_engine.server.answers import Choice, Usage, collect, events, header
from octavo_engine.server.dependencies import ServiceOf
from octavo_engine.server.generation import Service
from octavo_engine.server.pieces import Piece
from octavo_engine.server.prompts import check_prompts, encode_prompts
from octavo_engine.server.protocol import CompletionBody
from octavo_engine.server.responses import JSONResponse
from octavo_engine.server.sse import EventStream, unless_disconnected

router = APIRouter()

DEFAULT_MAX_TOKENS = 16


@router.post("/v1/completions")
async def create_completion(body: CompletionBody, request: Request, service: ServiceOf) -> Response:
    return await unless_disconnected(request, _complete(body, service))


async def _complete(body: CompletionBody, service: Service) -> Response:
    service.check_body(body)
    prompts = await encode_prompts(service.tokenizer, body.prompts, service.max_len)
    max_tokens = body.max_tokens or DEFAULT_MAX_TOKENS
    max_tokens = check_prompts(prompts, max_tokens, service.engine.ready, service.max_len, "prompt")
    usage = Usage(sum(map(len, prompts)), num_choices=body.num_choices)
    pieces = service.generate(prompts, body.sampling_params(max_tokens), body.num_choices, body.priority)
    head = header("cmpl", "text_completion", service.model)
    if body.stream:
        return await EventStream.start(events(pieces, head, _piece, usage, body.wants_usage))
    choices = await collect(pieces, len(prompts) * body.num_choices, usage)
    return JSONResponse({**head, "choices": [_choice(*item) for item in enumerate(choices)], "usage": usage.as_json()})


def _choice(index: int, choice: Choice) -> dict[str, Any]:
    return {
        "index": index,
        "text": choice.text,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
    }


def _piece(piece: Piece) -> dict[str, Any]:
    return _choice(piece.choice, Choice(piece.text, piece.finish_reason, piece.stop_reason))
