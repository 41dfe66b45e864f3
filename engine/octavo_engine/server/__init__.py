"""The OpenAI-compatible HTTP server in front of one engine."""

from octavo_engine.server.app import create_app
from octavo_engine.server.settings import ServerSettings

__all__ = ["ServerSettings", "create_app"]
