"""Every error that the engine raises on purpose.

OctavoError
├── ConfigError            the configuration cannot work; raised at start
│   └── ModelError         the model directory is missing, broken or not supported
├── InvalidRequest         what the client sent is wrong (HTTP 400)
├── QueueFull              too much is waiting; come back later (HTTP 429)
├── OutOfDeviceMemory      a step did not fit; the runner raises it, the engine takes smaller steps
├── RequestFailed          this request failed inside the engine; others go on (HTTP 500)
└── EngineDead             the engine ended; nothing more will come (HTTP 503)
    └── EngineStartError   it ended before it was ready
"""


class OctavoError(Exception):
    """Base of all. The message says what was expected, what came, and what to do."""


class ConfigError(OctavoError):
    pass


class ModelError(ConfigError):
    pass


class InvalidRequest(OctavoError):
    """`field` is the request's field at fault, as the client spells it; `code` is OpenAI's error code, if any."""

    def __init__(self, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.code = code


class QueueFull(OctavoError):
    """`retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RequestFailed(OctavoError):
    pass


class OutOfDeviceMemory(OctavoError):
    pass


class EngineDead(OctavoError):
    pass


class EngineStartError(EngineDead):
    pass
