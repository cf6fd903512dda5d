"""Keys of the API."""

import pytest

from pipeline.domain.api_keys import KeyGrant, Scope, digest, in_networks, is_secret, new_key, parse_token

TOKEN = "mun_" + "0" * 16 + "_" + "f" * 64


def test_a_token_holds_its_key() -> None:
    key = new_key()
    assert parse_token(key.token) == key
    assert parse_token(TOKEN) is not None
    assert len({new_key().token for _ in range(100)}) == 100


@pytest.mark.parametrize("token", ["", "mun_", "mun_0_0", f"{TOKEN} ", f"x{TOKEN}", TOKEN.upper(), "Bearer"])
def test_what_is_no_token_is_not_taken_for_one(token: str) -> None:
    assert parse_token(token) is None


def test_a_secret_is_told_by_its_digest() -> None:
    key, other = new_key(), new_key()
    assert is_secret(key.secret, digest(key.secret))
    assert not is_secret(other.secret, digest(key.secret))
    assert not is_secret("", None)
    assert not is_secret(key.secret, None)


@pytest.mark.parametrize(
    ("address", "lies_in_it"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("::ffff:10.1.2.3", True),
        ("fd00::1", True),
        ("fe80::1", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_addresses_are_compared_with_blocks(address: str, lies_in_it: bool) -> None:
    assert in_networks(address, ["10.0.0.0/8", "fd00::/8"]) is lies_in_it


def test_a_key_without_networks_is_good_everywhere() -> None:
    grant = KeyGrant(tenant="museum", name="desk", scopes=frozenset({Scope.READ}))
    assert grant.allows_address("203.0.113.9")


def test_a_key_needs_a_tenant_scopes_and_networks_that_are_some() -> None:
    for wrong in ({"tenant": ""}, {"scopes": frozenset()}, {"networks": ("10.0.0.0/99",)}):
        with pytest.raises(ValueError, match=r"key|network"):
            KeyGrant(**{"tenant": "museum", "name": "desk", "scopes": frozenset({Scope.READ})} | wrong)  # type: ignore[arg-type]
