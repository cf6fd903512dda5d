import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.web import NotAllowed, WebRules, parse_target

RULES = WebRules(schemes=frozenset({"https"}), ports=frozenset({443, 8443}))


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "1.1.1.1", "223.255.255.254", "2606:2800:220:1::1", "::ffff:93.184.216.34",
     "64:ff9b::5db8:d822", "2002:5db8:d822::1"],
)  # fmt: skip
def test_public_addresses_are_allowed(address):
    assert RULES.allow_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.255", "0.0.0.0", "0.1.2.3",  # this host
        "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "198.18.0.1",  # private, shared
        "169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192",  # metadata of clouds
        "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1", "203.0.113.9",
        "::", "::1", "::127.0.0.1", "fe80::1", "fe80::1%1", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1",
        "2001:db8::1", "2001:0:7f00:1::", "3fff::1", "100::1", "64:ff9b:1::1",
        # what stands for one of the others
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::",
        "2002:a9fe:a9fe::1", "::ffff:0:127.0.0.1",
    ],
)  # fmt: skip
def test_no_other_address_is(address):
    assert not RULES.allow_address(address)


def test_private_networks_may_be_allowed_and_only_those():
    rules = WebRules(schemes=RULES.schemes, ports=RULES.ports, networks=("10.1.0.0/16", "fd00:1::/32"))
    allowed = {"10.1.2.3": True, "10.2.0.1": False, "::ffff:10.1.2.3": True, "fd00:1::9": True, "fd00:2::9": False}
    assert {address: rules.allow_address(address) for address in allowed} == allowed


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_all_its_disguises(address):
    disguises = (f"::ffff:{address}", f"64:ff9b::{address}", f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::")
    assert {RULES.allow_address(disguise) for disguise in disguises} == {RULES.allow_address(str(address))}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://archive.test/1.pdf", "http URLs are not allowed"),
        ("file:///etc/passwd", "file URLs are not allowed"),
        ("gopher://archive.test/", "gopher URLs"),
        ("//archive.test/1.pdf", "bare URLs"),
        ("https:///1.pdf", "names no host"),
        ("https://user@archive.test/", "user or a password"),
        ("https://user:secret@archive.test/", "user or a password"),
        ("https://archive.test@127.0.0.1/", "user or a password"),
        ("https://@archive.test/", "user or a password"),
        ("https://archive.test:22/", "the port 22"),
        ("https://archive.test:0/", "the port 0"),
        ("https://archive.test:99999/", "malformed"),
        ("https://[::1/", "malformed"),
        ("https://archive.test\\@127.0.0.1/", "printable ASCII"),
        ("https://archive.test/ HTTP/1.1", "printable ASCII"),
        ("https://archive.test/\r\nHost: elsewhere", "printable ASCII"),
        ("https://archivе.test/", "printable ASCII"),
    ],
)
def test_urls_that_are_not_what_they_seem_are_refused(url, said):
    with pytest.raises(NotAllowed, match=said) as refused:
        parse_target(url, RULES)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://Archive.TEST./a?b=c#d", "archive.test", 443, "/a?b=c"),
        ("https://archive.test:8443", "archive.test", 8443, "/"),
        ("https://[2606:2800:220:1::1]/a", "2606:2800:220:1::1", 443, "/a"),
        ("https://archive.test/a//../b", "archive.test", 443, "/a//../b"),
    ],
)
def test_a_url_is_taken_apart_once(url, host, port, path):
    target = parse_target(url, RULES)
    assert (target.host, target.port, target.path) == (host, port, path)
    assert parse_target(target.url, RULES) == target


def test_no_ports_named_means_any():
    rules = WebRules(schemes=RULES.schemes, ports=frozenset())
    assert parse_target("https://archive.test:22/", rules).port == 22


def test_hosts_are_allowed_by_name_or_by_the_end_of_it():
    rules = WebRules(schemes=RULES.schemes, ports=RULES.ports, hosts=("archive.test", ".library.test"))
    expected = {"archive.test": True, "a.library.test": True, "library.test": False, "notarchive.test": False,
                "archive.test.evil.test": False, "evillibrary.test": False}  # fmt: skip
    assert {host: rules.allow_host(host) for host in expected} == expected
