"""Errors of the operator, drawn as a tree.

OperatorError
├── ApiError            the API server refused or failed
│   ├── NotFound        404
│   ├── AlreadyExists   409 on create, or a lost race on update
│   ├── Refused         400, 403, 405, 413, 422: the same request will be refused again
│   └── Unavailable     429, 5xx, no connection: the same request may succeed later
├── Conflict            an object of the name we need belongs to somebody else
├── EngineError         an engine did not answer, or not as agreed
└── LeaseLost           another replica may be leading: stop writing at once
"""


class OperatorError(Exception):
    """Something that the operator reports to the user and lives through, except `LeaseLost`."""


class ApiError(OperatorError):
    """An answer of the API server other than success. `status` is 0 when there was no answer."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class NotFound(ApiError):
    """The object or its kind does not exist."""


class AlreadyExists(ApiError):
    """An object of this name exists, or changed since it was read."""


class Refused(ApiError):
    """The request is wrong or not allowed; the message is the server's."""


class Unavailable(ApiError):
    """The server could not serve the request now."""


class Conflict(OperatorError):
    """An object that is not ours stands where ours should be."""


class EngineError(OperatorError):
    """An engine could not be reached or answered out of contract."""


class LeaseLost(OperatorError):
    """This replica no longer leads."""


def api_error(status: int, message: str, retry_after: float | None = None) -> ApiError:
    """Return the error that stands for an HTTP status."""
    if status == 404:
        return NotFound(status, message)
    if status == 409:
        return AlreadyExists(status, message)
    if status == 0 or status == 429 or status >= 500:
        return Unavailable(status, message, retry_after)
    return Refused(status, message)
