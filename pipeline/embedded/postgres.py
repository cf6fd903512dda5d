"""The embedded database: Postgres, which refuses to run as root and is helped out of that here."""

import os
import shutil
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

from pipeline.embedded import account
from pipeline.embedded.account import WhenRoot, choose_account, data_folder
from pipeline.embedded.binaries import postgres_programs
from pipeline.embedded.errors import StackError
from pipeline.embedded.files import private_folder, write_private
from pipeline.embedded.ports import LOOPBACK
from pipeline.embedded.process import Account, ProcessSpec

USER = DATABASE = "muniment"


def postgres_spec(
    folder: Path,
    *,
    port: int,
    password: str,
    max_connections: int = 100,
    fsync: bool = True,
    when_root: WhenRoot = account.DEFAULT,
) -> ProcessSpec:
    """Return how to run the server with its data below this folder, made here at the first call (about a second).

    Raises: ServerMissing, StackError.
    """
    private_folder(folder)
    data = data_folder(folder, when_root)
    version_file = data / "PG_VERSION"
    version = version_file.read_text().strip() if version_file.exists() else None
    programs = postgres_programs(version)
    runs_as, programs = choose_account(data, programs, when_root)
    if version is None:
        _initialise(data, programs, runs_as, password)
    options = {
        "listen_addresses": LOOPBACK,
        "port": port,
        # TCP alone: a socket's path is limited to 107 bytes, and homes lie deeper than that.
        "unix_socket_directories": "",
        "max_connections": max_connections,
        "log_destination": "stderr",
        "logging_collector": "off",
        **({} if fsync else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
    }

    async def accepts(pid: int) -> bool:
        return _accepts_connections(data, pid)

    return ProcessSpec(
        name="postgres",
        argv=(str(programs / "postgres"), "-D", str(data), *(f"--{name}={value}" for name, value in options.items())),
        env=_environment(data),
        folder=data.parent,
        ready=accepts,
        # Fast shutdown; SIGTERM would wait for every client to leave.
        stop_signal=signal.SIGINT,
        death_signal=signal.SIGINT,
        stop_grace=timedelta(seconds=20),
        account=runs_as,
    )


def database_url(*, port: int, password: str, name: str = DATABASE) -> str:
    """Return the address for SQLAlchemy."""
    return f"postgresql+psycopg://{USER}:{password}@{LOOPBACK}:{port}/{name}"


def _accepts_connections(data: Path, pid: int) -> bool:
    """Whether the server says so in line 8 of its pid file, as `pg_ctl --wait` asks (wait_for_postmaster_start)."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


def _initialise(data: Path, programs: Path, account: Account, password: str) -> None:
    # Made beside its place and moved there whole: an interrupted run leaves nothing that looks like a database.
    unfinished = data.with_name(f"{data.name}.new")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(mode=0o700)
    password_file = unfinished.with_name(f"{data.name}.password")
    write_private(password_file, password)
    if account.user is not None and account.group is not None:
        for path in (unfinished, password_file):
            os.chown(path, account.user, account.group)
    arguments = [
        *account.prefix,
        str(programs / "initdb"),
        f"--pgdata={unfinished}",
        f"--username={USER}",
        f"--pwfile={password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--no-locale",
        "--data-checksums",
        "--no-sync",
        "--no-instructions",
    ]
    try:
        made = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            check=False,
            env=_environment(data),
            cwd=data.parent,
            user=account.user,
            group=account.group,
            extra_groups=None if account.group is None else [],
        )
    finally:
        password_file.unlink()
    if made.returncode:
        raise StackError(f"initdb could not make {data}: {made.stderr.strip() or made.stdout.strip()}")
    if data.exists():
        data.rmdir()
    unfinished.rename(data)


def _environment(data: Path) -> dict[str, str]:
    return {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath), "HOME": str(data.parent), "TZ": "UTC"}
