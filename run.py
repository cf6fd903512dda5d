#!/usr/bin/env python3
"""Runs Muniment from a clone of its repository, with nothing installed but Python 3.11 or later.

    python3 run.py COMMAND ...          the command `muniment COMMAND ...`
    python3 run.py test [ARGUMENT ...]  the tests, with arguments for pytest

The first start makes `.venv` beside this file and installs the project into it; later ones hand over at once. Further
extras that `MUNIMENT_EXTRAS` names, e.g. `torch`, are installed too, and stay. What it has to say goes to stderr, so
that stdout is the command's alone. It uses the standard library only.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - this file is what tells
    sys.exit("Muniment needs Python 3.11 or later; this is {}.{}. Try: python3.11 run.py".format(*sys.version_info[:2]))

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed-by-run.json"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# The interpreter that environments are made from, also when this one lives in an environment itself.
BASE = getattr(sys, "_base_executable", None) or sys.executable

RUN_EXTRAS = {"embedded", "cpu"}
TEST_EXTRAS = {"dev"}
NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")


class InstallFailed(Exception):
    """The project could not be installed; the message says what to do."""


def main(arguments: list[str]) -> None:
    """Install what is missing, then become the command."""
    testing = arguments[:1] == ["test"]
    wanted = RUN_EXTRAS | (TEST_EXTRAS if testing else set()) | extras_asked_for()
    if not is_installed(wanted):
        try:
            with alone():
                if not is_installed(wanted):
                    install(wanted | installed_extras())
        except InstallFailed as error:
            sys.exit(f"muniment: {error}")
        except KeyboardInterrupt:
            sys.exit("muniment: the installation was interrupted; the next start goes on with it")
    if testing:
        os.chdir(ROOT)
        become(PYTHON, "-m", "pytest", *in_parallel(arguments[1:]), *arguments[1:])
    become(VENV / "bin" / "muniment", *arguments)


def extras_asked_for() -> set[str]:
    """Return the further extras that the environment names."""
    return {name.strip() for name in os.environ.get("MUNIMENT_EXTRAS", "").split(",")} - {""}


def become(program: Path, *arguments: str) -> None:
    """Replace this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [str(program), *arguments])  # noqa: S606 - the point of it


def in_parallel(arguments: list[str]) -> list[str]:
    """Return the option that uses all cores, unless the caller has chosen or wants a debugger."""
    chosen = any(
        argument in {"--pdb", "--trace"} or argument.startswith(("-n", "--numprocesses")) for argument in arguments
    )
    return [] if chosen else ["-n", str(len(os.sched_getaffinity(0)))]


# --- what is there ---------------------------------------------------------------------------------------------------


def stamp() -> dict[str, object]:
    """Return what the last complete installation wrote down."""
    try:
        content = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def fingerprint() -> dict[str, str]:
    """Return what an installation depends on."""
    return {"python": VERSION, "pyproject": hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()}


def is_installed(extras: set[str]) -> bool:
    """Whether the environment is complete, up to date and has these extras."""
    written = stamp()
    current = all(written.get(key) == value for key, value in fingerprint().items())
    return current and extras <= installed_extras() and PYTHON.exists() and (VENV / "bin" / "muniment").exists()


def installed_extras() -> set[str]:
    """Return the extras that are there; they stay, whatever is asked for."""
    extras = stamp().get("extras")
    return set(extras) if isinstance(extras, list) else set()


# --- installing ------------------------------------------------------------------------------------------------------


@contextmanager
def alone() -> Iterator[None]:
    """Let one process at a time install; the others wait, and then find it done."""
    if not os.access(ROOT, os.W_OK):
        raise InstallFailed(
            f"{ROOT} belongs to {owner(ROOT)} and can't be written by this user.\n"
            f"Run this as that user once, or use a copy of your own: cp -r {ROOT} ~/muniment"
        )
    # The folder itself is locked, so that no lock file is left in it.
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another start is installing; waiting for it")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def install(extras: set[str]) -> None:
    """Make the environment or mend it, install the project, and write that down last."""
    STAMP.unlink(missing_ok=True)
    uv = shutil.which("uv")
    if not has_python():
        say(f"making {VENV} with Python {VERSION}")
        remove_remains()
        make_environment(uv)
    say("installing Muniment and what it needs; this takes a minute or two, once")
    target = f"{ROOT}[{','.join(sorted(extras))}]"
    # uv chooses the build of torch that fits the machine by itself; pip has to be watched.
    torch_backend = ["--torch-backend", "auto"] if "torch" in extras else []
    if not (uv and run(uv, "pip", "install", "--quiet", "--python", PYTHON, *torch_backend, "--editable", target)):
        install_with_pip(target, has_torch="torch" in extras)
    unfinished = STAMP.with_suffix(".new")
    unfinished.write_text(json.dumps({**fingerprint(), "extras": sorted(extras)}))
    unfinished.replace(STAMP)
    say("done")


def has_python() -> bool:
    """Whether the environment has a working interpreter of this version."""
    asked = [str(PYTHON), "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.prefix != sys.base_prefix)"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return answer.stdout.split() == [VERSION, "True"]


def remove_remains() -> None:
    """Remove an environment that doesn't work, but nothing else that may have this name."""
    if VENV.is_symlink() or (VENV.exists() and not VENV.is_dir()):
        raise InstallFailed(f"{VENV} is in the way; move it elsewhere")
    if VENV.exists() and any(VENV.iterdir()) and not (VENV / "pyvenv.cfg").exists():
        raise InstallFailed(f"{VENV} is not a virtual environment; move it elsewhere")
    if VENV.exists():
        shutil.rmtree(VENV)


def make_environment(uv: str | None) -> None:
    """Make `.venv`, by the first way that works on this machine."""
    if uv and run(uv, "venv", "--quiet", "--python", BASE, VENV):
        return
    # Without, because a pip of its own takes longer than all the rest, and Debian and Ubuntu leave out ensurepip.
    if not run(BASE, "-m", "venv", "--without-pip", VENV):
        raise InstallFailed(f"this Python can't make virtual environments; on Debian or Ubuntu: {apt_line()}")


def install_with_pip(target: str, *, has_torch: bool) -> None:
    """Install the project with the environment's own pip, the machine's, one from ensurepip, or a fetched one."""
    options = ["install", "-qq", "--disable-pip-version-check", "--no-input"]
    own = [str(PYTHON), "-m", "pip"]
    of_machine = [BASE, "-m", "pip", "--python", str(PYTHON)]  # pip 22.3 and later
    if run(*own, "--version", quiet=True):
        pip = own
    elif run(*of_machine, "--version", quiet=True):
        pip = of_machine
    elif run(PYTHON, "-m", "ensurepip", quiet=True):
        pip = own
    else:
        pip = [str(PYTHON), f"{fetch_pip()}/pip"]
    if has_torch and not NVIDIA_DRIVER.exists():
        refuse_torch_for_cards([*pip, *options])
    if not run(*pip, *options, "--editable", target):
        raise InstallFailed("pip could not install the project (see above); the next start tries again")


def refuse_torch_for_cards(pip_install: list[str]) -> None:
    """Keep pip from fetching gigabytes that a machine without a card can't use: it takes what its index has."""
    import tomllib  # noqa: PLC0415 - as in `fetch_pip`

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [torch] = [requirement for requirement in extras["torch"] if requirement.startswith("torch>")]
    asked = subprocess.run([*pip_install, "--dry-run", "--report", "-", torch], stdout=subprocess.PIPE, check=False)
    if asked.returncode:
        raise InstallFailed(f"pip finds no {torch} (see above)")
    names = [found["metadata"]["name"] for found in json.loads(asked.stdout)["install"]]
    if for_cards := [name for name in names if name.startswith(("nvidia-", "cuda-"))]:
        raise InstallFailed(
            f"pip's index has torch for NVIDIA cards only (with {', '.join(for_cards[:3])}, ...: several GB), and this "
            "machine has none.\nPut uv on PATH, or install a CPU build of torch into .venv first; docs/gpu.md says how"
        )


def fetch_pip() -> Path:
    """Download pip's wheel, which runs as it is, from the index that the user names; its hash is checked."""
    # Not at the top: it takes longer than all the rest of a start.
    import re  # noqa: PLC0415
    import urllib.parse  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    if not (named := os.environ.get("PIP_INDEX_URL")):
        raise InstallFailed(
            f"this Python comes without pip; on Debian or Ubuntu: {apt_line()}\n"
            "Without root, put uv on PATH, or name a package index in PIP_INDEX_URL, from which pip is fetched then"
        )
    index = named.rstrip("/") + "/pip/"
    try:
        with urllib.request.urlopen(index, timeout=30) as answer:  # noqa: S310 - the user's own
            page = answer.read().decode()
        found = re.findall(r'href="([^"#]+/(pip-([\d.]+)-py3-none-any\.whl))#sha256=([0-9a-f]{64})"', page)
        address, name, _, digest = max(found, key=lambda link: [int(part) for part in link[2].split(".")])
        with urllib.request.urlopen(urllib.parse.urljoin(index, address), timeout=120) as answer:  # noqa: S310
            wheel = answer.read()
    except (OSError, ValueError) as error:
        raise InstallFailed(f"pip could not be fetched ({error}); on Debian or Ubuntu: {apt_line()}") from error
    if hashlib.sha256(wheel).hexdigest() != digest:
        raise InstallFailed(f"{name} is not what the index says it is; on Debian or Ubuntu: {apt_line()}")
    path = VENV / name
    path.write_bytes(wheel)
    return path


def run(*command: "str | Path", quiet: bool = False) -> bool:
    """Run a program with its output on stderr, or nowhere; whether it succeeded."""
    output = subprocess.DEVNULL if quiet else sys.stderr
    try:
        return not subprocess.run([str(part) for part in command], stdout=output, stderr=output, check=False).returncode
    except OSError:
        return False


def apt_line() -> str:
    """Return what to do where Python came in pieces."""
    return f"sudo apt install python{VERSION}-venv"


def owner(path: Path) -> str:
    """Return whose a file is."""
    try:
        return path.owner()
    except KeyError:
        return f"user {path.stat().st_uid}"


def say(what: str) -> None:
    """Tell the person at the terminal."""
    print(f"muniment: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
