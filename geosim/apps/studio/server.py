"""The server of the studio: one page, its scripts and one WebSocket on 127.0.0.1, for whoever has the token.

Nothing else is answered: a request needs the token in its address and this server as its Host, a WebSocket this page as its
Origin. Pages load nothing from elsewhere (Content-Security-Policy), and no file is read by a name that was sent.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from geosim.apps.studio.messages import MAX_MESSAGE_BYTES, read_message
from geosim.apps.studio.session import Session, refusal
from geosim.errors import GeosimError, InputError
from geosim.show.page import VIEWER, color_maps
from geosim.writing import filled, in_script

__all__ = ["HOST", "application", "bound", "configuration", "new_token", "serve"]

HOST = "127.0.0.1"
STATIC = Path(__file__).parent / "static"
TOKEN_BYTES = 24
MAX_ADDRESS_CHARACTERS = 400  # of a request
MAX_WAITING_MESSAGES = 256  # for a page that does not read; it is let go then, and comes back
REFUSED_CODE = 4403  # of a WebSocket
MAX_HEADER_BYTES = 16 * 1024
# Connections in all; WebSockets of pages among them; and connections that have not asked anything yet.
MAX_CONNECTIONS, MAX_PAGES, MAX_SILENT = 64, 32, 16
REQUEST_SECONDS = 5.0  # in which a connection has to ask something: a page asks at once
TRY_LATER_CODE = 1013  # of a WebSocket beyond MAX_PAGES

# What is served: address -> file and its kind.
FILES: Mapping[str, tuple[Path, str]] = {
    "/studio.css": (STATIC / "studio.css", "text/css"),
    "/studio.js": (STATIC / "studio.js", "text/javascript"),
    "/viewer.js": (VIEWER / "viewer.js", "text/javascript"),
    "/three.js": (VIEWER / "three.min.js", "text/javascript"),
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self' ws://{host}; "
    "img-src 'self' data: blob:; media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report is a page of its own script; it may do nothing but draw, and is not of this origin.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'none'"
)
REFUSAL = (
    "This page needs the token of the studio. Open the whole address that `geosim studio` printed in its terminal, which ends in "
    "?token=..., or start the studio again.\n"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _Prompt(H11Protocol):
    """A connection that is closed when it asks nothing in time, or when too many others ask nothing, either."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.since, self.asked = self.loop.time(), self.cycle
        silent = [one for one in self.connections if isinstance(one, _Prompt) and one.silent]
        if len(silent) > MAX_SILENT:
            min(silent, key=lambda one: one.since).transport.close()
        self.loop.call_later(REQUEST_SECONDS, self.expect)

    @property
    def silent(self) -> bool:
        """Whether it waits for the head of a request; a WebSocket has left the connections of HTTP."""
        return self in self.connections and self.conn.their_state is h11.IDLE and not self.transport.is_closing()

    def expect(self) -> None:
        """Close the connection unless it asked something since the last time."""
        if self.silent and self.asked is self.cycle:
            self.transport.close()
        elif self in self.connections:
            self.asked = self.cycle
            self.loop.call_later(REQUEST_SECONDS, self.expect)


class _Guard:
    """Refuses whatever does not come from this server's own page."""

    def __init__(self, app: ASGIApp, token: str, host: str) -> None:
        self.app, self.token, self.host = app, token, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._welcome(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": REFUSED_CODE})
        else:
            await Response(REFUSAL, 403, headers=HEADERS, media_type="text/plain")(scope, receive, send)

    def _welcome(self, scope: Scope) -> bool:
        """Whether host, origin and token are right, and nothing is longer than it has to be."""
        request, web = HTTPConnection(scope), scope["type"] == "websocket"
        headers, given = request.headers, request.query_params.getlist("token")
        address = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
        own, origins = [f"http://{self.host}"], headers.getlist("origin")
        sites = (None, "none", "same-origin")
        right = (
            address <= MAX_ADDRESS_CHARACTERS,
            sum(len(k) + len(v) for k, v in headers.raw) <= MAX_HEADER_BYTES,
            headers.getlist("host") == [self.host],
            origins in ([own] if web else ([], own)),  # a page of this server may ask without one, a WebSocket not
            web or (scope["method"] == "GET" and headers.get("sec-fetch-site") in sites),
            len(given) == 1 and secrets.compare_digest(given[0].encode(), self.token.encode()),
        )
        return all(right)


def application(session: Session, token: str, host: str) -> ASGIApp:
    """Return the application for a session; `host` is the host and port under which it is reached."""
    data = {"colors": color_maps()}

    async def page(request: Request) -> Response:
        text = filled((STATIC / "studio.html").read_text(encoding="utf-8"), {"TOKEN": token, "DATA": in_script(data)})
        policy = PAGE_POLICY.format(host=host)
        return Response(text, media_type="text/html", headers={**HEADERS, "Content-Security-Policy": policy})

    async def file(request: Request) -> Response:
        path, kind = FILES[request.url.path]
        return Response(path.read_bytes(), media_type=kind, headers=HEADERS)

    async def report(request: Request) -> Response:
        if session.report is None or not session.report.is_file():
            return Response("there is no report yet\n", 404, headers=HEADERS)
        headers = {**HEADERS, "Content-Security-Policy": REPORT_POLICY}
        return Response(session.report.read_bytes(), media_type="text/html", headers=headers)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        session.begin()
        try:
            yield
        finally:
            session.end()

    pages: set[WebSocket] = set()

    async def talk(socket: WebSocket) -> None:
        if len(pages) >= MAX_PAGES:
            await socket.close(TRY_LATER_CODE)
            return
        pages.add(socket)
        try:
            await _talk(socket, session)
        finally:
            pages.discard(socket)

    routes: list[Any] = [Route("/", page), Route("/report", report), *(Route(name, file) for name in FILES)]
    return _Guard(Starlette(routes=[*routes, WebSocketRoute("/ws", talk)], lifespan=lifespan), token, host)


async def _talk(page: WebSocket, session: Session) -> None:
    """Let a page listen to a session and say what it wants, until it goes."""
    await page.accept()
    waiting: asyncio.Queue[Any] = asyncio.Queue(MAX_WAITING_MESSAGES)

    def listener(message: Any) -> None:
        try:
            waiting.put_nowait(message)
        except asyncio.QueueFull:  # it does not read: it is let go, and gets the present state when it comes back
            session.leave(listener)
            writer.cancel()

    async def write() -> None:
        while True:
            message = await waiting.get()
            if isinstance(message, bytes):
                await page.send_bytes(message)
            else:
                await page.send_text(json.dumps(message, allow_nan=False))

    async def read() -> None:
        while True:
            given = await page.receive()
            if given["type"] == "websocket.disconnect":
                return
            try:
                if given.get("text") is None:
                    raise InputError("not understood: bytes")
                await session.hear(read_message(given["text"]))
            except GeosimError as error:
                listener(refusal(error))

    writer = asyncio.create_task(write())
    session.join(listener)
    reader = asyncio.create_task(read())
    try:
        await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        session.leave(listener)
        for task in (writer, reader):
            task.cancel()
            with suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
                await task
        with suppress(RuntimeError):
            await page.close()


def bound(port: int) -> socket.socket:
    """Return a socket on 127.0.0.1; port 0 is any free one.

    Raises
    ------
    InputError
        The port is taken.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # who comes before the server has begun waits
    except OSError as error:
        listening.close()
        raise InputError(
            f"port {port} cannot be used: {error.strerror or error}; leave --port out for a free one"
        ) from None
    return listening


def serve(session: Session, listening: socket.socket, token: str) -> None:
    """Serve a session on a socket until it is interrupted."""
    host = f"{HOST}:{listening.getsockname()[1]}"
    uvicorn.Server(configuration(application(session, token, host))).run(sockets=[listening])


def configuration(app: ASGIApp) -> uvicorn.Config:
    """Return how the application is served: silent, with messages and headers no longer than they have to be."""
    return uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        ws="websockets-sansio",
        ws_max_size=2 * MAX_MESSAGE_BYTES,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        http=_Prompt,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="on",
    )


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(TOKEN_BYTES)
