"""`systola serve`: the page while a campaign runs, on one address, from a database that is read.

Two answers: `/` is the page, `/data.json` its data, with a tag so that data that have not changed
are not sent again. A request that names another host is refused: a page from elsewhere must not
read results through the user's browser.
"""

import hashlib
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from spec.errors import SystolaError
from sw.report.data import ReportData
from sw.report.errors import ReportError
from sw.report.page import render
from sw.report.payload import payload

_FRESH_S = 1.0
"""Data this old are read again when somebody asks."""

Load = Callable[[], ReportData]


class LiveData:
    """The newest data, read at most once in `_FRESH_S` seconds however many ask."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._data: ReportData | None = None
        self._text = b""
        self._tag = ""

    def page(self) -> bytes:
        with self._lock:
            return render(self._newest(), live=True).encode()

    def json(self) -> tuple[bytes, str]:
        """(the data as JSON, a tag that changes with them)."""
        with self._lock:
            self._newest()
            return self._text, self._tag

    def _newest(self) -> ReportData:
        if self._data is None or time.monotonic() - self._read_at > _FRESH_S:
            data = self._load()
            text = json.dumps(payload(data), separators=(",", ":"), allow_nan=False)
            self._text = text.encode()
            self._tag = _tag(data)
            self._data, self._read_at = data, time.monotonic()
        return self._data


def _tag(data: ReportData) -> str:
    """Of everything but the time at which it was read, in quotes as HTTP wants it."""
    facts = {**payload(data), "made_at": ""}
    return f'"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}"'


class Server(ThreadingHTTPServer):
    """Listens at once, on `host` and `port`; port 0 is any that is free. `url` says where.

    `ReportError` if the address cannot be had.
    """

    daemon_threads = True

    def __init__(self, load: Load, host: str, port: int) -> None:
        self.live = LiveData(load)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ReportError(
                f"--host {host} --port {port}: cannot listen: {reason}; port 0 takes a free one"
            ) from None
        self.hosts = _hosts(host)

    @property
    def url(self) -> str:
        host, port = self.server_address[:2]
        name = str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}/"

    def server_bind(self) -> None:
        # HTTPServer asks the name service for the host's full name, which can take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()


def _hosts(host: str) -> set[str] | None:
    """Names that a request may have for us; None: any, as we listen for all interfaces."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return {host, "localhost", "127.0.0.1"}
    if address.is_unspecified:
        return None
    return {str(address), "localhost"} if address.is_loopback else {str(address)}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "systola"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, *_: Any) -> None:
        """Nobody wants a line for each request on the terminal."""

    def _answer(self, *, with_body: bool) -> None:
        status, kind, body, tag = self._content()
        self.send_response(status)
        if tag:
            self.send_header("ETag", tag)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if with_body and status is not HTTPStatus.NOT_MODIFIED:
            self.wfile.write(body)

    def _content(self) -> tuple[HTTPStatus, str, bytes, str]:
        if not self._is_for_us():
            return HTTPStatus.FORBIDDEN, "text/plain", b"this server has another name\n", ""
        path = self.path.partition("?")[0]
        try:
            if path in ("/", "/index.html"):
                return HTTPStatus.OK, "text/html", self.server.live.page(), ""
            if path == "/data.json":
                text, tag = self.server.live.json()
                if self.headers.get("If-None-Match") == tag:
                    return HTTPStatus.NOT_MODIFIED, "application/json", b"", tag
                return HTTPStatus.OK, "application/json", text, tag
        except SystolaError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n".encode(), ""
        return HTTPStatus.NOT_FOUND, "text/plain", b"there is / and /data.json\n", ""

    def _is_for_us(self) -> bool:
        if self.server.hosts is None:
            return True
        name = self.headers.get("Host", "")
        host = name.rpartition(":")[0] if name.rpartition(":")[2].isdecimal() else name
        return host.strip("[]").lower() in self.server.hosts
