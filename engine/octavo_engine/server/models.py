"""GET /v1/models, and the tokenizer's two directions."""

import time
from typing import Any

from fastapi import APIRouter, Response

from octavo_engine.errors import InvalidRequest
from octavo_engine.server.dependencies import ServiceOf
from octavo_engine.server.generation import Service
from octavo_engine.server.prompts import encode_chat, encode_prompts
from octavo_engine.server.protocol import DetokenizeBody, TokenizeBody
from octavo_engine.server.responses import JSONResponse

router = APIRouter()
_started = int(time.time())


@router.get("/v1/models")
async def list_models(service: ServiceOf) -> Response:
    return JSONResponse({"object": "list", "data": [_card(service)]})


@router.get("/v1/models/{model:path}")
async def get_model(model: str, service: ServiceOf) -> Response:
    service.check_model(model)
    return JSONResponse(_card(service))


@router.post("/tokenize")
async def tokenize(body: TokenizeBody, service: ServiceOf) -> Response:
    service.check_model(body.model)
    if body.messages:
        tokens = await encode_chat(service.tokenizer, body.messages)
    else:
        tokens = (await encode_prompts(service.tokenizer, [body.prompt or ""]))[0]
    return JSONResponse({"tokens": tokens, "count": len(tokens), "max_model_len": service.max_len})


@router.post("/detokenize")
async def detokenize(body: DetokenizeBody, service: ServiceOf) -> Response:
    service.check_model(body.model)
    vocab_size = service.engine.ready.vocab_size
    if body.tokens and max(body.tokens) >= vocab_size:
        raise InvalidRequest(
            f"token id {max(body.tokens)} is outside the vocabulary of {vocab_size} tokens", field="tokens"
        )
    return JSONResponse({"prompt": service.tokenizer.decode(body.tokens)})


def _card(service: Service) -> dict[str, Any]:
    return {
        "id": service.model,
        "object": "model",
        "created": _started,
        "owned_by": "octavo",
        "max_model_len": service.max_len,
    }
