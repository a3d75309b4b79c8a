"""The panel in a thread of the tests' own process, on their database, as `manage.py run` serves it: by ASGI, where an
event stream is answered as it goes on. pytest-django's server speaks WSGI, which collects a stream to its end first."""

from __future__ import annotations

import threading
from typing import Self

import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application
from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test.utils import modify_settings

from panel.api.bodies import BodyLimit
from tests.support.ports import free_port
from tests.support.waiting import eventually

HOST = "127.0.0.1"


class StaticFiles(ASGIStaticFilesHandler):
    """Answers with whole files: Django's own answer is one that ASGI can only send after a warning."""

    def serve(self, request: HttpRequest) -> HttpResponseBase:
        answer = super().serve(request)
        if not isinstance(answer, FileResponse):
            return answer
        return HttpResponse(answer.getvalue(), headers=dict(answer.items()))


class LiveServer:
    """Takes the place of pytest-django's object of this name, which its fixtures look into."""

    def __init__(self) -> None:
        self.url = f"http://{HOST}:{(port := free_port())}"
        self._server = uvicorn.Server(
            uvicorn.Config(
                BodyLimit(StaticFiles(get_asgi_application())),
                host=HOST,
                port=port,
                log_level="warning",
                access_log=False,
                lifespan="off",
                timeout_graceful_shutdown=3,
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._live_server_modified_settings = modify_settings(ALLOWED_HOSTS={"append": HOST})

    def __enter__(self) -> Self:
        self._thread.start()
        assert eventually(lambda: self._server.started, timeout_s=60), "the panel does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(60)
