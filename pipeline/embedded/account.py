"""As whom Postgres runs, which refuses root: as ourselves, inside a user namespace, or as nobody.

A data folder stays with whoever made it, so its owner decides wherever there is one.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pipeline.embedded.errors import StackError
from pipeline.embedded.process import Account

NOBODY = 65534
ROOT = 0

# Shows the process another user id than root while its files stay root's: data and programs below /root work, and no
# folder's mode is touched. Needs util-linux 2.36 and a kernel that allows user namespaces; default containers don't.
_NAMESPACE = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhenRoot:
    """What root may use to run Postgres."""

    namespaces: bool = True
    open_folder: Path = Path("/var/lib/muniment")
    """Where nobody's data and programs lie: root's own folders can't be entered by others, and we open none of them."""


DEFAULT = WhenRoot()


def data_folder(folder: Path, when_root: WhenRoot) -> Path:
    """Return where the data lies or will lie: in the folder, or behind a link from it where nobody must reach it."""
    data = folder / "data"
    if data.is_symlink() or data.exists() or os.geteuid() != ROOT or _namespaces_work(when_root):
        return data.resolve()
    place = when_root.open_folder / hashlib.sha256(str(data).encode()).hexdigest()[:16]
    try:
        place.mkdir(parents=True, exist_ok=True)
        for made in (place, when_root.open_folder):
            made.chmod(0o711)
    except OSError as error:
        raise StackError(f"Postgres can't run as root here, and {place} can't be made for it: {error}") from error
    data.symlink_to(place / "data")
    return data.resolve()


def choose_account(data: Path, programs: Path, when_root: WhenRoot) -> tuple[Account, Path]:
    """Return as whom to run these programs on this data, and where they can be reached from there.

    Raises: StackError, when the data belongs to somebody whom we can't be.
    """
    if os.geteuid() != ROOT:
        _refuse_foreign(data)
        return Account(), programs
    owner = data.stat() if data.exists() else None
    if owner and owner.st_uid != ROOT:
        return Account(user=owner.st_uid, group=owner.st_gid), _reachable(programs, when_root.open_folder)
    if _namespaces_work(when_root):
        return Account(prefix=_NAMESPACE), programs
    if owner:
        raise StackError(
            f"{data} was made by root inside a user namespace, and namespaces are not allowed here;"
            f" run as an ordinary user who owns it: chown -R USER {data}"
        )
    return Account(user=NOBODY, group=NOBODY), _reachable(programs, when_root.open_folder)


def _refuse_foreign(data: Path) -> None:
    if data.exists() and data.stat().st_uid != os.geteuid():
        raise StackError(
            f"{data} belongs to user {data.stat().st_uid}, and this is user {os.geteuid()};"
            " run as that user, or set MUNIMENT_HOME to a folder of your own"
        )


@functools.cache
def _namespaces_work(when_root: WhenRoot) -> bool:
    if not when_root.namespaces or shutil.which(_NAMESPACE[0]) is None:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def _reachable(programs: Path, open_folder: Path) -> Path:
    """Return the programs, copied (41 MB) where others can't enter the environment that they are installed in."""
    if all(folder.stat().st_mode & 0o001 for folder in programs.resolve().parents):
        return programs
    install = programs.parent
    version = hashlib.sha256(str(install).encode() + str(install.stat().st_mtime_ns).encode()).hexdigest()[:16]
    copy = open_folder / f"programs-{version}"
    if not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.{os.getpid()}")
        package = install.parent
        # The programs find libpq by its place relative to them.
        for source in (install, package.with_name(f"{package.name}.libs")):
            if source.exists():
                _copy_readable(source, unfinished / source.relative_to(package.parent))
        _let_enter(unfinished, open_folder)
        unfinished.rename(copy)
    return copy / programs.relative_to(install.parent.parent)


def _copy_readable(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _let_enter(folder: Path, open_folder: Path) -> None:
    for made in (folder, *folder.iterdir(), open_folder):
        made.chmod(0o711)
