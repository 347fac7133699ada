"""The server answers its own page and nobody else."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'geosim[studio]'")
pytest.importorskip("starlette", reason="starlette is not installed: pip install 'geosim[studio]'")
pytest.importorskip("websockets", reason="websockets is not installed: pip install 'geosim[studio]'")

import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus
from websockets.sync.client import connect

from geosim.apps.studio.messages import MAX_MESSAGE_BYTES, read_message
from geosim.apps.studio.scene import of_design
from geosim.apps.studio.server import HOST, MAX_PAGES, application, bound, configuration
from geosim.apps.studio.session import Session
from geosim.errors import InputError

TOKEN = "a-token-of-the-tests"


@dataclass
class Still(Session):
    """A session that solves nothing."""

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()


@contextmanager
def served(folder):
    listening = bound(0)
    port = listening.getsockname()[1]
    session = Still(of_design("bellows"), folder)
    server = uvicorn.Server(configuration(application(session, TOKEN, f"{HOST}:{port}")))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield port, session
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    with served(folder) as (port, session):
        yield port, session, folder


def raw(port: int, text: bytes) -> bytes:
    """What the server answers to bytes on a socket."""
    with socket.create_connection((HOST, port), timeout=10) as there:
        there.settimeout(10)
        there.sendall(text)
        there.shutdown(socket.SHUT_WR)
        out = b""
        try:
            while chunk := there.recv(65536):
                out += chunk
        except (ConnectionResetError, TimeoutError):
            pass
        return out


def get(port: int, path: str, *, method: str = "GET", host: str | None = None, headers: str = "") -> bytes:
    host = f"{HOST}:{port}" if host is None else host
    return raw(port, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n".encode())


OWN = f"?token={TOKEN}"
PATHS = ("/", "/studio.js", "/studio.css", "/viewer.js", "/three.js", "/report", "/ws")
WRONG_TOKENS = (
    "",
    "?token=",
    "?token=x",
    f"?token={TOKEN[:-1]}",
    f"?token={TOKEN}x",
    f"?Token={TOKEN}",
    f"?token={TOKEN}&token=x",
)
HOSTS = ("evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.nip.io", "[::1]", "0.0.0.0", "")
TRAVERSALS = (
    "/../studio/server.py", "/static/../server.py", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
    "/....//etc/passwd", "/studio.js/../../session.py", "/studio.js%00.py", "/..\\..\\etc\\passwd", "/%c0%ae%c0%ae/etc/passwd",
    "/report/../../robot.toml", "/static/studio.js", "/studio.html", "/docs", "/openapi.json", "/favicon.ico",
)  # fmt: skip
METHODS = ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT")
HEADERS = (
    "Origin: http://evil.example\r\n",
    "Origin: null\r\n",
    "Sec-Fetch-Site: cross-site\r\n",
    "Sec-Fetch-Site: same-site\r\n",
)
MALFORMED = (
    b"\x00\x01\x02\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"A" * 100_000,
    b"GET / HTTP/1.1\r\nHost\r\n\r\n",
)
ORIGINS = (None, "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1", "http://localhost", "file://")
VALUES = (
    {}, {"no": 1}, {"wall_mm": None}, {"wall_mm": [1]}, {"wall_mm": "2"}, {"wall_mm": -1}, {"wall_mm": 1e99},
    {"wall_mm": float("nan")}, {"wall_mm": float("inf")}, {"convolutions": 2.5}, {"convolutions": 1e8},
    {"material": "../../etc/passwd"}, {"material": "x.toml"},
    {"gravity": 3}, {"wall_mm": True}, {"__class__": 1}, {f"k{i}": 1 for i in range(17)},
)  # fmt: skip
NAMES = ("../out", "/tmp/out", "a/b", "a\\b", "..", "", "a\0b", ".hidden", "a" * 65, "a\n", 3)
SEARCHES = (([], 3), (["wall_mm"], 0), (["material"], 3), (["../x"], 3), (["wall_mm"], 100_000))
MESSAGES = (
    "", "{", "[]", "null", "1", '"turn"', "{}", '{"do": "turn"}', '{"do": "run", "code": "1"}', '{"do": "save"}',
    '{"do": "reach"}', "x" * (MAX_MESSAGE_BYTES + 1), "[" * 2000, b"bytes", b"\xff\xfe",
    json.dumps({"do": "turn", "values": {"wall_mm": 1.5}, "more": 1}),
    *(json.dumps({"do": "turn", "values": values}) for values in VALUES),
    *(json.dumps({"do": "save", "name": name}) for name in NAMES),
    *(json.dumps({"do": "reach", "degrees": degrees}) for degrees in (-1, 1e9, "60")),
    *(json.dumps({"do": "search", "degrees": 60, "keys": keys, "trials": trials}) for keys, trials in SEARCHES),
)  # fmt: skip


def heard(page):
    """Messages of the server, without the frames between them."""
    while True:
        message = page.recv(timeout=60)
        if isinstance(message, str):
            yield json.loads(message)


def forged() -> list[tuple[str, dict]]:
    out: list[tuple[str, dict]] = [(path + wrong, {}) for path in PATHS for wrong in WRONG_TOKENS]
    out += [("/" + OWN, {"host": host}) for host in HOSTS]
    out += [(path + OWN, {}) for path in TRAVERSALS]
    out += [("/" + OWN, {"method": method}) for method in METHODS]
    out += [("/" + OWN, {"headers": header}) for header in HEADERS]
    out += [
        ("/" + "a" * 5000 + OWN, {}),
        ("/" + OWN + "&" + "b" * 5000, {}),
        ("/" + OWN, {"headers": "X: " + "y" * 40_000 + "\r\n"}),
    ]
    return out


def test_at_least_a_hundred_kinds_of_requests_are_forged_here():
    assert len(forged()) + len(MALFORMED) + len(ORIGINS) + len(MESSAGES) >= 100


def test_forged_requests_get_nothing(studio):
    port = studio[0]
    for path, given in forged():
        answer = get(port, path, **given)
        status = answer.split(b" ", 2)[1:2]
        assert not answer or status[0] in (b"403", b"404", b"400", b"405", b"431"), (path, given, answer[:200])
        assert len(answer) < 1500
        assert TOKEN.encode() not in answer


def test_bytes_that_are_no_request_get_nothing(studio):
    for text in MALFORMED:
        answer = raw(studio[0], text)
        assert not answer or answer.split(b" ", 2)[1] in (b"400", b"403", b"431"), text[:40]


def test_the_page_and_its_files_are_there_with_the_token_and_name_no_other_host(studio):
    port = studio[0]
    page = get(port, "/" + OWN, headers="Sec-Fetch-Site: none\r\n")
    assert page.startswith(b"HTTP/1.1 200")
    policy = next(line for line in page.split(b"\r\n") if line.lower().startswith(b"content-security-policy"))
    assert b"default-src 'none'; script-src 'self';" in policy
    for path in ("/studio.js", "/studio.css", "/viewer.js", "/three.js"):
        assert get(port, path + OWN, headers="Sec-Fetch-Site: same-origin\r\n").startswith(b"HTTP/1.1 200")
    assert get(port, "/report" + OWN).startswith(b"HTTP/1.1 404")


def test_a_socket_is_for_this_page_alone(studio):
    port = studio[0]
    for origin in ORIGINS:
        with pytest.raises((InvalidStatus, InvalidMessage, ConnectionClosed)):
            connect(f"ws://{HOST}:{port}/ws{OWN}", origin=origin).close()
    own = f"http://{HOST}:{port}"
    for address in (f"ws://{HOST}:{port}/ws", f"ws://{HOST}:{port}/ws?token=x", f"ws://{HOST}:{port}/other{OWN}"):
        with pytest.raises((InvalidStatus, InvalidMessage, ConnectionClosed)):
            connect(address, origin=own).close()


def test_messages_that_say_something_else_are_refused_and_change_nothing(studio):
    port, session, folder = studio
    before = session.scene, session.number
    for text in MESSAGES:
        with connect(f"ws://{HOST}:{port}/ws{OWN}", origin=f"http://{HOST}:{port}") as page:
            assert json.loads(page.recv(timeout=20))["say"] == "scene"
            page.send(text)
            try:
                answer = json.loads(page.recv(timeout=20))
            except ConnectionClosed:  # too long, or no text
                continue
            assert answer["say"] == "refused", (text[:80], answer)
            assert "\n" not in answer["text"]
    assert (session.scene, session.number) == before
    assert list(folder.iterdir()) == []
    with connect(f"ws://{HOST}:{port}/ws{OWN}", origin=f"http://{HOST}:{port}") as page:  # it is still there
        page.recv(timeout=20)
        page.send('{"do": "turn", "values": {"wall_mm": 1.75}}')
        assert json.loads(page.recv(timeout=20))["number"] == session.number


def test_a_message_is_read_up_to_its_limit_only():
    with pytest.raises(InputError, match="at most"):
        read_message('{"do": "stop"' + " " * MAX_MESSAGE_BYTES + "}")


def test_what_is_saved_is_whole_and_never_over_what_is_there(studio):
    port, _, folder = studio
    with connect(f"ws://{HOST}:{port}/ws{OWN}", origin=f"http://{HOST}:{port}") as page:
        page.recv(timeout=20)
        said = []
        for _ in range(2):
            page.send('{"do": "save", "name": "kept"}')
            said.append(next(m for m in heard(page) if m["say"] in ("saved", "refused")))
    assert said[0]["say"] == "saved"
    assert sorted(p.name for p in (folder / "kept").iterdir()) == [
        "actuation.toml",
        "body.stl",
        "chamber_1.stl",
        "robot.toml",
    ]
    assert said[1]["say"] == "refused"
    assert "not empty" in said[1]["text"]


def test_ninety_sockets_that_ask_nothing_do_not_keep_the_page_out(studio):
    """Silent and half-asked connections give way to one that asks; none of them stays open for ever."""
    port = studio[0]
    idle = []
    try:
        for i in range(90):
            idle.append(socket.create_connection((HOST, port), timeout=10))
            if i % 2:
                idle[-1].sendall(f"GET /{OWN} HTTP/1.1\r\nHost: {HOST}".encode())
        for _ in range(3):
            assert get(port, f"/{OWN}").startswith(b"HTTP/1.1 200")
        deadline = time.monotonic() + 30.0
        for one in idle:
            one.settimeout(max(deadline - time.monotonic(), 0.1))
            with suppress(ConnectionResetError):
                assert one.recv(1) == b""
    finally:
        for one in idle:
            one.close()


def test_pages_beyond_the_limit_are_told_to_try_later_and_the_page_stays(studio):
    port = studio[0]
    with ExitStack() as stack:
        taken = 0
        for _ in range(100):
            try:
                stack.enter_context(
                    connect(
                        f"ws://{HOST}:{port}/ws{OWN}", origin=f"http://{HOST}:{port}", open_timeout=10, close_timeout=1
                    )
                )
                taken += 1
            except (InvalidStatus, InvalidMessage, ConnectionClosed):
                pass
        assert taken == MAX_PAGES
        assert get(port, f"/{OWN}").startswith(b"HTTP/1.1 200")
    deadline = time.monotonic() + 20.0  # their places are free again
    while time.monotonic() < deadline:
        with suppress(InvalidStatus), connect(f"ws://{HOST}:{port}/ws{OWN}", origin=f"http://{HOST}:{port}"):
            return
    raise AssertionError("no page is taken after the others have gone")
