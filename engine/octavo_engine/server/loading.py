"""From a configuration to a ready engine and the tokenizer of its model."""

import asyncio
import importlib
import logging
from pathlib import Path

from octavo_engine.config import EngineConfig
from octavo_engine.engine_client import EngineClient
from octavo_engine.models import resolve_model
from octavo_engine.server.interfaces import Tokenizer

logger = logging.getLogger(__name__)


async def load_model(config: EngineConfig, engine: EngineClient) -> Tokenizer:
    """Start the engine; meanwhile load the tokenizer and import the server, which takes seconds as well."""
    logger.info("loading %s", config.model)
    directory = await asyncio.to_thread(resolve_model, config.model, config.revision)
    starting = asyncio.create_task(engine.start())
    try:
        tokenizer_directory = Path(config.tokenizer) if config.tokenizer else directory
        tokenizer = await asyncio.to_thread(_prepare_server, tokenizer_directory)
        await starting
        return tokenizer
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


def _prepare_server(tokenizer_directory: Path) -> Tokenizer:
    from octavo_engine.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(tokenizer_directory)
    importlib.import_module("octavo_engine.server.http_server")
    return tokenizer
