"""Passwords and keys of the embedded servers: made once for each home, kept in `HOME/secrets.json`."""

import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pipeline.domain.api_keys import new_key
from pipeline.embedded.files import write_private_json


def _token() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """All of them; none is ever printed or put on a command line."""

    database_password: str = field(default_factory=_token, repr=False)
    broker_password: str = field(default_factory=_token, repr=False)
    objects_access_key: str = field(default_factory=_token, repr=False)
    objects_secret_key: str = field(default_factory=_token, repr=False)
    flower_password: str = field(default_factory=_token, repr=False)
    api_key: str = field(default_factory=lambda: new_key().token, repr=False)


def load_or_create(home: Path) -> Credentials:
    """Return the credentials of this home, made at the first call. The caller owns the home's lock."""
    path = home / "secrets.json"
    known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    credentials = Credentials(**known)
    if asdict(credentials) != known:
        write_private_json(path, asdict(credentials))
    return credentials
