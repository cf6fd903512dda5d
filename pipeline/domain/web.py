"""Where requests may go that others ask us to make: which URLs, and which addresses behind their names.

Whoever can name a URL could otherwise have us ask what only we can reach: our own services, the metadata of a cloud.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit, urlunsplit

from pipeline.domain.api_keys import in_networks

_DEFAULT_PORTS = {"https": 443, "http": 80}
_GLOBAL_UNICAST = ip_network("2000::/3")
"""All of IPv6 that is given out for the Internet (RFC 4291); what lies outside is local, mapped, or reserved."""
_NAT64 = ip_network("64:ff9b::/96")
_TEREDO = ip_network("2001::/32")
# What `ipaddress` of Python 3.11 takes for global and the registries of IANA do not.
_NOT_GLOBAL_4 = (ip_network("192.0.0.0/24"), ip_network("192.88.99.0/24"))
_NOT_GLOBAL_6 = (_TEREDO, ip_network("3fff::/20"))


class NotAllowed(Exception):
    """A URL, or the address behind its name, that may not be asked; the message may be shown to whoever gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRules:
    """Where requests may go."""

    schemes: frozenset[str]
    ports: frozenset[int]
    """Empty means any."""
    hosts: tuple[str, ...] = ()
    """Names, or `.example.org` for all below that; empty means any."""
    networks: tuple[str, ...] = ()
    """CIDR blocks that are allowed beside public addresses."""

    def __post_init__(self) -> None:
        for network in self.networks:
            ip_network(network)

    def allow_host(self, host: str) -> bool:
        """Whether requests may go to a host of this name."""
        named = (host == known or (known.startswith(".") and host.endswith(known)) for known in self.hosts)
        return not self.hosts or any(named)

    def allow_address(self, address: str) -> bool:
        """Whether requests may go to this IP address."""
        plain = _plain(ip_address(address))
        return _is_public(plain) or in_networks(str(plain), self.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A URL that may be asked, taken apart once, so that what is checked is what is asked."""

    scheme: str
    host: str
    port: int
    path: str
    """With its query."""

    @property
    def url(self) -> str:
        """Return the whole; its query may be a secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def parse_target(url: str, rules: WebRules) -> Target:
    """Return the parts of a URL. Raises: NotAllowed, if it is malformed or the rules forbid it."""
    parts = _split(url)
    if parts.scheme not in _DEFAULT_PORTS or parts.scheme not in rules.schemes:
        raise NotAllowed(f"{parts.scheme or 'bare'} URLs are not allowed here")
    if "@" in parts.netloc:
        raise NotAllowed("a URL with a user or a password is not allowed")
    host = (parts.hostname or "").rstrip(".")
    port = _DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    if not host:
        raise NotAllowed("the URL names no host")
    if rules.ports and port not in rules.ports:
        raise NotAllowed(f"the port {port} is not allowed")
    if not rules.allow_host(host):
        raise NotAllowed(f"the host {host} is not among the allowed ones")
    path = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    return Target(scheme=parts.scheme, host=host, port=port, path=path)


def _split(url: str) -> SplitResult:
    # `urlsplit` drops some of these silently, and others read a backslash as a slash.
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise NotAllowed("a URL has printable ASCII characters only; percent-encode the others")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise NotAllowed("the URL is malformed") from None
    return parts


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if address.is_multicast or not address.is_global:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _NOT_GLOBAL_4)
    return address in _GLOBAL_UNICAST and not any(address in block for block in _NOT_GLOBAL_6)
