"""JSON by orjson, for answers and stream events alike."""

from typing import Any

import orjson
from starlette.responses import Response

dumps = orjson.dumps


class JSONResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content)
