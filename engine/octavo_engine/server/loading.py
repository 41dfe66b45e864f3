"""From a configuration to a ready engine and the tokenizer of its model."""

import asyncio
import logging
from pathlib import Path

from octavo_engine.config import EngineConfig
from octavo_engine.engine_client import EngineClient
from octavo_engine.models import resolve_model
from octavo_engine.server.interfaces import Tokenizer
from octavo_engine.tokenizer import load_tokenizer

logger = logging.getLogger(__name__)


async def load_model(config: EngineConfig, engine: EngineClient) -> Tokenizer:
    """Start the engine, and meanwhile load the tokenizer."""
    logger.info("loading %s", config.model)
    directory = await asyncio.to_thread(resolve_model, config.model, config.revision)
    starting = asyncio.create_task(engine.start())
    try:
        return await asyncio.to_thread(load_tokenizer, Path(config.tokenizer) if config.tokenizer else directory)
    finally:
        await starting
