"""A webhook posts to the very address that was checked, proves who it is, and is held up by no one."""

from __future__ import annotations

import hashlib
import hmac
import socket
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone
from threading import Thread

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from fingerprint.adapters.webhook import WebhookReceiver, parse_secrets, signature_headers
from fingerprint.core.errors import FingerprintError, ObjectNotFound, Unavailable
from fingerprint.core.settings import ReceiverSettings
from fingerprint.delivery.outbox import RateLimited
from tests.support.http_receiver import Listening, listening
from tests.support.services.certificates import Authority

NOW = datetime(2026, 3, 4, 14, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of Standard Webhooks' own example
BODY = b'{"title":"x"}'
HERE = ("127.0.0.0/8",)


@pytest.fixture
def listen() -> Iterator[Callable[..., Listening]]:
    with listening() as start:
        yield start


@contextmanager
def raw_server(work: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that speaks as it likes; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    work(connection)

        Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def hook(url: str, resolve: Callable | None = None, **fields: object) -> WebhookReceiver:
    wants = ReceiverSettings(
        url=url, **{"allow_http": True, "allowed_networks": HERE, "timeout_seconds": 5.0} | fields
    )
    return WebhookReceiver(wants, resolve) if resolve else WebhookReceiver(wants)


def post(to: WebhookReceiver) -> None:
    to.deliver("6f0c1d", BODY, "123456789012:role/ci", NOW)


def is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Whether the secret signed this body, by the library of Standard Webhooks."""
    when = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    wanted = Webhook(secret).sign(headers["webhook-id"], when, body.decode())
    return wanted in headers["webhook-signature"].split()


# --- signatures ------------------------------------------------------------------------------------------------------


def test_a_signature_is_the_one_of_standard_webhooks():
    """Computed as its specification says, without the library."""
    body, when = b'{"test": 2432232314}', datetime.fromtimestamp(1614265330, UTC)
    made = signature_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", when, body, parse_secrets(SECRET))
    key = b64decode(SECRET.removeprefix("whsec_"))
    signed = hmac.new(key, b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body, hashlib.sha256).digest()
    assert made["webhook-signature"] == "v1," + b64encode(signed).decode()
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="  # their own example


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30))])
def test_a_receiver_with_the_library_accepts_what_is_sent_now(zone):
    made = signature_headers("k", datetime.now(zone), BODY, parse_secrets(SECRET))
    assert Webhook(SECRET).verify(BODY, made) == {"title": "x"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(b"{}", made)
    late = signature_headers("k", datetime.now(zone) - timedelta(seconds=301), BODY, parse_secrets(SECRET))
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(SECRET).verify(BODY, late)


def test_while_a_secret_is_rotated_both_sign():
    lines = [SECRET, "whsec_" + b64encode(b"x" * 32).decode()]
    made = signature_headers("k", NOW, BODY, parse_secrets("\n\n".join(lines) + "\n"))
    assert all(is_signed(made, BODY, line) for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "whsec_hunter2",
        "whsec_" + b64encode(b"short").decode(),
        "whsec_é",
        b64encode(b"x" * 32).decode(),
    ],
)
def test_a_bad_secret_is_refused_and_not_repeated(text):
    with pytest.raises(FingerprintError, match="openssl") as caught:
        parse_secrets(text)
    assert text not in str(caught.value)


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_a_body_arrives_as_it_is_signed_and_with_its_key(listen, tmp_path):
    (tmp_path / "secret").write_text(SECRET + "\n")
    server = listen()
    post(hook(server.url(path="/alerts?team=a%20b"), signing_secret_file=str(tmp_path / "secret")))
    (got,) = server.got
    assert (got.path, got.body) == ("/alerts?team=a%20b", BODY)
    assert got.headers["idempotency-key"] == got.headers["webhook-id"] == "6f0c1d"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    assert is_signed(got.headers, got.body, SECRET)


def test_without_a_secret_there_is_no_signature(listen):
    server = listen()
    post(hook(server.url()))
    assert "webhook-signature" not in server.got[0].headers


def test_a_secret_is_exchanged_while_the_program_runs(listen, tmp_path):
    file, server = tmp_path / "secret", listen()
    file.write_text(SECRET)
    webhook = hook(server.url(), signing_secret_file=str(file))
    post(webhook)
    file.write_text("whsec_" + "A" * 43 + "=")
    post(webhook)
    assert [is_signed(got.headers, got.body, SECRET) for got in server.got] == [True, False]


def test_the_proxies_of_the_environment_are_not_asked(listen, monkeypatch):
    server, proxy = listen(), listen()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url(path=""))
    post(hook(server.url()))
    assert (len(server.got), len(proxy.got)) == (1, 0)


def test_a_url_may_lie_in_a_file(listen, tmp_path):
    server = listen()
    (tmp_path / "url").write_text(server.url(path="/services/T0/B0/hunter2") + "\n")
    WebhookReceiver(
        ReceiverSettings(kind="slack", url_file=str(tmp_path / "url"), allow_http=True, allowed_networks=HERE)
    ).deliver("k", BODY, "p", NOW)
    assert server.got[0].path == "/services/T0/B0/hunter2"


# --- where it does not go --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0",
    ],
)
def test_this_machine_is_not_reached_however_it_is_spelled(listen, host):
    server = listen()
    with pytest.raises(Unavailable, match=r"is not connected to: .* (is|leads to).*`allowed_networks`"):
        post(hook(server.url(host), allowed_networks=()))
    assert not server.got


def test_an_inner_name_is_reached_where_its_network_is_allowed(listen):
    server = listen()
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    post(hook(server.url("soc.inner.example"), resolve, allowed_networks=("127.0.0.1",)))
    assert server.got[0].headers["host"] == f"soc.inner.example:{server.server_address[1]}"
    assert len(asked) == 1  # the answer that was judged is the one that was used


def test_a_name_that_answers_again_is_judged_again(listen):
    """The first answer is good; the second one leads inside."""
    server = listen()
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    webhook = hook(server.url("rebinding.example"), lambda *_: next(answers), allowed_networks=("127.0.0.1",))
    post(webhook)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.2 is loopback"):
        post(webhook)
    assert len(server.got) == 1


def test_a_name_that_leads_outside_and_inside_is_not_reached_at_all(listen):
    server = listen()
    with pytest.raises(Unavailable, match=r"169\.254\.169\.254 is link-local"):
        post(hook(server.url("both.example"), lambda *_: ["127.0.0.1", "169.254.169.254"]))
    assert not server.got


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(listen, status):
    inner = listen()
    server = listen(status=status, extra={"location": inner.url(path="/latest/meta-data/")})
    with pytest.raises(Unavailable, match=f"answered {status}.*redirects are not followed"):
        post(hook(server.url()))
    assert (len(server.got), len(inner.got)) == (1, 0)


def test_the_address_is_pinned_under_tls_and_the_certificate_is_the_names(listen, tmp_path):
    """The name leads to 127.0.0.1 by our resolver alone; TLS and Host still speak of the name."""
    authority = Authority(tmp_path / "ca", "the tests")
    for certified, reaches in (("127.0.0.1", True), ("127.0.0.9", False)):
        server = listen()
        shown = authority.certify(certified, hosts=(certified,))
        context = _server_side(shown.certificate, shown.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        webhook = hook(
            server.url(scheme="https"),
            lambda *_: ["127.0.0.1"],
            ca_file=str(authority.file),
            allow_http=False,
        )
        if reaches:
            post(webhook)
            assert len(server.got) == 1
        else:
            with pytest.raises(Unavailable, match="certificate"):
                post(webhook)
            assert not server.got


def test_tls_asks_for_the_name_and_not_for_the_address(tmp_path):
    authority = Authority(tmp_path / "ca", "the tests")
    shown = authority.certify("server", hosts=("127.0.0.1",))
    context, asked = _server_side(shown.certificate, shown.key), []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)

    def greet(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True)

    with raw_server(greet) as port, pytest.raises(Unavailable, match="certificate"):
        post(
            hook(
                f"https://soc.example.com:{port}/",
                lambda *_: ["127.0.0.1"],
                ca_file=str(authority.file),
                allow_http=False,
            )
        )
    assert asked == ["soc.example.com"]


def _server_side(certificate, key):
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


# --- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 429, 500, 502, 503])
def test_whatever_is_not_a_yes_is_tried_again(listen, status):
    with pytest.raises(RateLimited, match=f"answered {status}: no, says <b>the server</b>"):
        post(hook(listen(status=status, answer=b"no, says <b>the server</b>").url()))


def test_a_receiver_that_wants_no_more_is_told_no_more(listen):
    with pytest.raises(ObjectNotFound, match="410"):
        post(hook(listen(status=410).url()))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120.0),
        ("Wed, 04 Mar 2026 14:02:00 GMT", 120.0),
        ("Wed, 04 Mar 2026 13:00:00 GMT", 0.0),
        ("soon", 0.0),
        ("Mon, 01 Jan 99999999999 00:00:00 GMT", 0.0),
    ],
)
def test_a_receiver_may_ask_for_time(listen, said, seconds):
    with pytest.raises(RateLimited) as caught:
        post(hook(listen(status=429, extra={"retry-after": said}).url()))
    assert caught.value.retry_after == seconds


def test_what_a_receiver_answers_cannot_steer_a_terminal(listen):
    with pytest.raises(RateLimited) as caught:
        post(hook(listen(status=500, answer=b"\x1b[2J\xff\xfe\xe2\x80\xae" + b"x" * 10_000).url()))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_an_endless_answer_is_read_so_far_and_no_further():
    sent = 0

    def pour(connection: socket.socket) -> None:
        nonlocal sent
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\n\r\n")
        while sent < 1 << 30:
            sent += connection.send(b"x" * 65536)

    with raw_server(pour) as port, pytest.raises(RateLimited):
        post(hook(f"http://127.0.0.1:{port}/"))
    assert sent < 64 << 20  # what the kernel's buffers take


@pytest.mark.parametrize("where", ["before", "headers", "body"])
def test_one_that_drips_is_left_when_the_time_is_over(where):
    """A byte every 20 ms would keep each single read content for ever."""
    beginning = {
        "before": b"",
        "headers": b"HTTP/1.1 200 OK\r\nx: ",
        "body": b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
    }

    def drip(connection: socket.socket) -> None:
        while where == "before" and connection.recv(65536):
            pass  # until the other side has had enough
        connection.sendall(beginning[where])
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)  # the receiver's own slowness: what is tested

    with raw_server(drip) as port:
        begun = time.monotonic()
        with pytest.raises(Unavailable, match="did not answer in time"):
            post(hook(f"http://127.0.0.1:{port}/", timeout_seconds=0.5))
        assert time.monotonic() - begun < 30  # it would never end


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 100])
def test_what_is_no_answer_is_one_sentence(answer):
    def speak(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with raw_server(speak) as port, pytest.raises(Unavailable, match="could not be reached"):
        post(hook(f"http://127.0.0.1:{port}/"))


def test_no_one_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1 could not be reached"):
        post(hook(f"http://127.0.0.1:{port}/services/hunter2"))


def test_a_name_that_leads_nowhere_is_one_sentence():
    with pytest.raises(Unavailable, match="leads nowhere"):
        post(hook("http://nowhere.invalid/"))


def test_no_sentence_tells_the_path(listen):
    for status in (302, 404, 410, 500):
        with pytest.raises((Unavailable, ObjectNotFound)) as caught:
            post(hook(listen(status=status).url(path="/services/hunter2")))
        assert "hunter2" not in str(caught.value)


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"url": "http://soc.example.com/hunter2", "allow_http": False}, "without allow_http = true"),
        ({"url": "https://u:hunter2@soc.example.com/"}, "name or password; sign with signing_secret_file"),
        ({"signing_secret_file": "/nowhere"}, "/nowhere"),
        ({"ca_file": "/nowhere"}, "/nowhere"),
        ({"ca_file": __file__}, "holds no certificates"),
        ({"allowed_networks": ("inside",)}, "name a network"),
    ],
)
def test_a_receiver_that_cannot_be_is_refused_at_start(fields, why):
    with pytest.raises(FingerprintError, match=why) as caught:
        WebhookReceiver(ReceiverSettings(**{"url": "https://soc.example.com/hunter2"} | fields))
    assert "hunter2" not in str(caught.value)
