"""Keys of the HTTP API: what one may do, how it looks, and how it is told from a guess."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network


class Scope(StrEnum):
    """What the holder of a key may do with what belongs to its tenant."""

    SUBMIT = "submit"
    """Hand in documents."""
    READ = "read"
    """See jobs and fetch results."""
    ACT = "act"
    """Cancel, pause, resume, change, retry and delete jobs."""
    ADMIN = "admin"
    """See devices, queues and the usage of all tenants; on the admin port only."""


_TOKEN = re.compile(r"mun_([0-9a-f]{16})_([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key as its holder gets it, once; only the digest of its secret is kept."""

    key_id: str
    """Public: it stands in listings and on the trail."""
    secret: str = field(repr=False)

    @property
    def token(self) -> str:
        """Return what goes behind `Authorization: Bearer`."""
        return f"mun_{self.key_id}_{self.secret}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGrant:
    """What a key allows, and where from."""

    tenant: str
    name: str
    """What people call it."""
    scopes: frozenset[Scope]
    networks: tuple[str, ...] = ()
    """CIDR blocks that its holder may call from; empty means anywhere."""
    requests_per_minute: int | None = None
    """None leaves it to `api.requests_per_minute`."""
    pages_per_day: int | None = None
    """None is no quota."""

    def __post_init__(self) -> None:
        if not self.tenant or not self.scopes:
            raise ValueError("a key has a tenant and at least one scope")
        for network in self.networks:
            ip_network(network)

    def allows_address(self, address: str) -> bool:
        """Whether its holder may call from there."""
        return not self.networks or in_networks(address, self.networks)


def new_key() -> NewKey:
    """Make a key out of 256 random bits."""
    return NewKey(key_id=secrets.token_hex(8), secret=secrets.token_hex(32))


def parse_token(token: str) -> NewKey | None:
    """Return the parts of a token; None where it can't be one of ours."""
    found = _TOKEN.fullmatch(token)
    return NewKey(key_id=found[1], secret=found[2]) if found else None


def digest(secret: str) -> str:
    """Return what is kept of a secret. Without salt or stretching: nobody guesses 256 bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_secret(secret: str, kept: str | None) -> bool:
    """Whether the secret is the one whose digest is kept; takes as long where there is none."""
    return hmac.compare_digest(digest(secret), kept or digest("")) and kept is not None


def in_networks(address: str, networks: Sequence[str]) -> bool:
    """Whether an IP address lies in one of these blocks; what is no address lies in none."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if parsed.version == 6 and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    blocks: list[IPv4Network | IPv6Network] = [ip_network(network) for network in networks]
    return any(parsed in block for block in blocks if block.version == parsed.version)
