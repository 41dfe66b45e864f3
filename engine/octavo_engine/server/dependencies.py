"""What endpoints get by type annotation."""

from typing import Annotated

from fastapi import Depends, Request

from octavo_engine.server.generation import Service


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(_service)]
