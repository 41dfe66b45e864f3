"""Tokenizer and engine of one model, ready to serve."""

import asyncio
import logging
from pathlib import Path

from octavo_engine.config import EngineConfig
from octavo_engine.engine_client import EngineClient
from octavo_engine.models import resolve_model
from octavo_engine.server.interfaces import Tokenizer
from octavo_engine.tokenizer import load_tokenizer

logger = logging.getLogger(__name__)


async def load_model(config: EngineConfig, engine: EngineClient) -> tuple[Tokenizer, str]:
    """Start the engine, and meanwhile load the tokenizer; also returns the name that clients use."""
    logger.info("loading %s", config.model)
    directory = await asyncio.to_thread(resolve_model, config.model, config.revision)
    starting = asyncio.create_task(engine.start())
    tokenizer = await asyncio.to_thread(load_tokenizer, Path(config.tokenizer) if config.tokenizer else directory)
    await starting
    return tokenizer, config.served_model_name or directory.name
