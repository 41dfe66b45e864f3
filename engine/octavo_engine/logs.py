"""Log records of the server's processes, as lines of text or as JSON objects."""

import logging
import os
import time
from typing import Literal

import orjson

_VARIABLE = "OCTAVO_LOG_FORMAT"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(fields).decode()


def setup(log_format: Literal["text", "json"]) -> None:
    """Everything from INFO on goes to standard error; uvicorn's own chatter only from WARNING on.

    The format is left in the environment, where the engine process finds it.
    """
    os.environ[_VARIABLE] = log_format
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(JsonFormatter() if log_format == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)


def setup_like_parent() -> None:
    """In a process that one with logs set up has started; without logs there, only warnings are shown."""
    if log_format := os.environ.get(_VARIABLE):
        setup("json" if log_format == "json" else "text")
