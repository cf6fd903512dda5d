"""Requests that others ask us to make, against real servers on loopback, which stands for the public network here."""

import socket
import ssl
import threading
from datetime import timedelta

import pytest

from pipeline.adapters.outbound import Outbound, Trouble, Unreachable, addresses_of
from pipeline.domain.web import NotAllowed, WebRules
from tests.waiting import eventually
from tests.web import CERTIFICATE, Names, WebServer, says

PUBLIC = ["127.0.0.1"]
PRIVATE = ["127.0.0.2"]
SOON = timedelta(seconds=30)


def outbound(names=addresses_of, *, networks=("127.0.0.1/32",), silence=20.0, tls=None):
    rules = WebRules(schemes=frozenset({"https", "http"}), ports=frozenset(), networks=networks)
    return Outbound(rules, silence=timedelta(seconds=silence), resolve=names, tls=tls)


def get(out, url, *, redirects=0, within=SOON):
    with out.exchange("GET", url, within=within, redirects=redirects) as answer:
        return answer.status, b"".join(answer.pieces())


@pytest.fixture
def inside():
    """What nobody outside should reach; it listens on all of loopback."""
    with WebServer(says(body=b"secrets"), address="0.0.0.0") as server:
        yield server


def test_an_answer_comes_whole():
    with WebServer(says(body=b"x" * 300_000)) as server:
        assert get(outbound(), server.url + "/a?b=c") == (200, b"x" * 300_000)
    [asked] = server.asked
    assert (asked.path, asked.headers["Host"]) == ("/a?b=c", f"127.0.0.1:{server.port}")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "017700000001", "0x7f.1", "0.0.0.0", "0",
     "localhost", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]"],
)  # fmt: skip
def test_no_spelling_of_this_host_leads_to_it(inside, host):
    with pytest.raises(NotAllowed, match="not allowed"):
        get(outbound(networks=()), f"http://{host}:{inside.port}/")
    assert inside.asked == []


@pytest.mark.parametrize("host", ["169.254.169.254", "0xa9fea9fe", "2852039166", "[fd00:ec2::254]", "10.0.0.1"])
def test_neither_the_metadata_of_clouds_nor_private_networks_are_asked(host):
    with pytest.raises(NotAllowed, match="not allowed"):
        get(outbound(), f"http://{host}/latest/meta-data/")


def test_a_name_that_means_a_private_address_is_refused_and_the_address_not_told(inside):
    with pytest.raises(NotAllowed) as refused:
        get(outbound(Names(archive_test=[PRIVATE])), f"http://archive.test:{inside.port}/")
    assert "127.0.0.2" not in str(refused.value)
    assert inside.asked == []


def test_a_name_with_one_private_address_among_public_ones_is_refused(inside):
    with pytest.raises(NotAllowed):
        get(outbound(Names(archive_test=[PUBLIC + PRIVATE])), f"http://archive.test:{inside.port}/")
    assert inside.asked == []


def test_a_name_is_resolved_once_and_what_was_checked_is_what_is_asked(inside):
    names = Names(archive_test=[PUBLIC, PRIVATE])
    with WebServer(says(body=b"public"), port=0) as server:
        assert get(outbound(names), f"http://archive.test:{server.port}/") == (200, b"public")
    assert names.asked == ["archive.test"]
    # The next request asks anew, and meets what the name means by then.
    with pytest.raises(NotAllowed):
        get(outbound(names), f"http://archive.test:{inside.port}/")
    assert inside.asked == []


def redirecting(location):
    return says(302, Location=location)


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.2:{port}/", "http://localhost.test:{port}/", "//127.0.0.2:{port}/", "http://2130706434:{port}/",
     "http://[::1]:{port}/", "http://user@127.0.0.1:{port}/", "file:///etc/passwd", "ftp://127.0.0.1/",
     "http://[", "//[::1", "http://127.0.0.2\\@127.0.0.1:{port}/", "http://127.0.0.1:{port}\xa0.test/"],
)  # fmt: skip
def test_redirects_are_checked_like_the_first_url(inside, location):
    names = Names(archive_test=[PUBLIC], localhost_test=[PRIVATE], **{"2130706434": [PRIVATE]})

    def resolve(host, port):
        return names(host, port) if host in names._meanings else addresses_of(host, port)

    with WebServer(redirecting(location.format(port=inside.port))) as server, pytest.raises(NotAllowed):
        get(outbound(resolve), f"http://archive.test:{server.port}/", redirects=5)
    assert inside.asked == []


def test_a_name_that_changes_its_meaning_between_two_redirects_is_refused(inside):
    names = Names(archive_test=[PUBLIC, PRIVATE])
    with WebServer(redirecting(f"http://archive.test:{inside.port}/")) as server, pytest.raises(NotAllowed):
        get(outbound(names), f"http://archive.test:{server.port}/", redirects=5)
    assert inside.asked == []


def test_redirects_are_followed_up_to_a_number_and_relative_ones_are_understood():
    def answer(handler):
        left = int(handler.path.strip("/"))
        (says(body=b"there") if left == 0 else redirecting(str(left - 1)))(handler)

    with WebServer(answer) as server:
        assert get(outbound(), server.url + "/5", redirects=5) == (200, b"there")
        with pytest.raises(NotAllowed, match="more than 5 times"):
            get(outbound(), server.url + "/6", redirects=5)


def test_a_redirect_is_an_answer_where_none_is_to_be_followed():
    with WebServer(redirecting("/elsewhere")) as server:
        assert get(outbound(), server.url)[0] == 302
    assert len(server.asked) == 1


def test_a_circle_of_redirects_ends():
    with WebServer(redirecting("/")) as server, pytest.raises(NotAllowed, match="more than 3"):
        get(outbound(), server.url, redirects=3)
    assert len(server.asked) == 4


# --- bounds of time


def slow_body(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.drip(b"x")


def slow_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    handler.drip(b"x")


def silent(handler):
    handler.drip(b"", every_s=60)


@pytest.mark.parametrize(("answer", "silence"), [(slow_body, 20), (slow_headers, 20), (silent, 0.2), (silent, 20)])
def test_who_is_slow_or_silent_is_cut_off(answer, silence):
    with WebServer(answer) as server, pytest.raises(Unreachable) as cut:
        get(outbound(silence=silence), server.url, within=timedelta(seconds=0.6))
    assert cut.value.trouble is Trouble.TIMED_OUT


def test_a_handshake_that_never_ends_is_cut_off():
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(Unreachable) as cut:
        get(outbound(), f"https://127.0.0.1:{listener.getsockname()[1]}/", within=timedelta(seconds=0.6))
    assert cut.value.trouble is Trouble.TIMED_OUT


def test_a_body_without_end_can_be_left_at_any_time():
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        handler.drip(b"x" * 65536, every_s=0)

    with WebServer(endless) as server, outbound().exchange("GET", server.url, within=SOON) as answer:
        pieces = answer.pieces()
        assert sum(len(next(pieces)) for _ in range(100)) > 100


def test_a_body_that_ends_before_its_end_is_no_answer():
    with WebServer(says(body=b"half", **{"Content-Length": "8"})) as server, pytest.raises(Unreachable) as cut:
        get(outbound(), server.url)
    assert cut.value.trouble is Trouble.CUT_SHORT


def test_nobody_there_is_said_so():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unreachable) as missed:
        get(outbound(), f"http://127.0.0.1:{port}/")
    assert missed.value.trouble is Trouble.NOT_CONNECTED


@pytest.mark.parametrize("host", ["no-such-name.invalid", "a" * 64 + ".test", "a..test"])
def test_a_name_that_means_nothing_is_said_so(host):
    with pytest.raises(Unreachable) as missed:
        get(outbound(), f"http://{host}/")
    assert missed.value.trouble is Trouble.NAME_UNKNOWN


def test_no_thread_is_left_behind():
    before = threading.active_count()
    with WebServer(says()) as server:
        get(outbound(), server.url)
        with pytest.raises(NotAllowed):
            get(outbound(networks=()), server.url)
    eventually(lambda: threading.active_count() <= before)


# --- TLS


@pytest.fixture
def trusting():
    return ssl.create_default_context(cafile=str(CERTIFICATE))


def test_the_name_is_verified_though_the_address_is_pinned(trusting):
    names = Names(archive_test=[PUBLIC], elsewhere_test=[PUBLIC])
    with WebServer(says(body=b"sealed"), tls=True) as server:
        assert get(outbound(names, tls=trusting), f"https://archive.test:{server.port}/") == (200, b"sealed")
        with pytest.raises(Unreachable) as refused:
            get(outbound(names, tls=trusting), f"https://elsewhere.test:{server.port}/")
        assert refused.value.trouble is Trouble.TLS_FAILED


def test_a_certificate_that_nobody_vouches_for_is_refused():
    with WebServer(says(), tls=True) as server, pytest.raises(Unreachable) as refused:
        get(outbound(Names(archive_test=[PUBLIC])), f"https://archive.test:{server.port}/")
    assert refused.value.trouble is Trouble.TLS_FAILED


def test_no_proxy_of_the_environment_is_asked(monkeypatch):
    with WebServer(says(body=b"direct")) as server, WebServer(says(body=b"proxied")) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert get(outbound(), server.url) == (200, b"direct")
