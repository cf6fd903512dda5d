"""`run.py` on a small project of its own, whose build backend needs no network."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).resolve().parents[1] / "run.py"

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "muniment"
version = "1"
[project.optional-dependencies]
embedded = []
cpu = []
dev = []
torch = ["torch>=2.9"]
"""

# Writes a wheel by hand: a command that tells how it was called, and a stand-in for pytest.
BACKEND = '''
import base64, hashlib, pathlib, zipfile

COMMAND = """
import os, sys
def main():
    print("command", *sys.argv[1:], os.getcwd(), sep="|")
"""
PYTEST = """
import os, sys
print("pytest", *sys.argv[1:], os.getcwd(), sep="|")
"""

def build_editable(folder, config_settings=None, metadata_directory=None):
    if pathlib.Path("broken").exists():
        raise SystemExit("this project can not be built")
    with pathlib.Path("builds").open("a") as builds:
        builds.write("x")
    name = "muniment-1-py3-none-any.whl"
    info = "muniment-1.dist-info/"
    files = {
        "muniment_command.py": COMMAND,
        "pytest.py": PYTEST,
        info + "METADATA": "Metadata-Version: 2.1\\nName: muniment\\nVersion: 1\\n"
        "Provides-Extra: embedded\\nProvides-Extra: cpu\\nProvides-Extra: dev\\nProvides-Extra: torch\\n"
        "Requires-Dist: torch>=2.9; extra == 'torch'\\n",
        info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        info + "entry_points.txt": "[console_scripts]\\nmuniment = muniment_command:main\\n",
    }
    def line(path, text):
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(text.encode())}\\n"
    files[info + "RECORD"] = "".join(line(*item) for item in files.items()) + info + "RECORD,,\\n"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
'''


class Clone:
    """A folder as a newcomer has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        shutil.copy(RUN, folder)
        (folder / "pyproject.toml").write_text(PYPROJECT)
        (folder / "backend.py").write_text(BACKEND)

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        # Without the environment that these tests themselves run in.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "VIRTUAL_ENV"))}
        return subprocess.Popen(
            [sys.executable, self.folder / "run.py", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**env, "PATH": "/usr/bin:/bin", **environment},
        )

    def run(self, *arguments: str, **environment: str) -> Any:
        process = self.start(*arguments, **environment)
        process.out, process.err = process.communicate()
        return process

    @property
    def builds(self) -> int:
        """How often the project was installed."""
        return len((self.folder / "builds").read_text())

    @property
    def extras(self) -> list[str]:
        return json.loads((self.folder / ".venv" / "installed-by-run.json").read_text())["extras"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone after its first start, to be copied: making an environment takes seconds."""
    clone = Clone(tmp_path_factory.mktemp("clones") / "clone")
    first = clone.run("status", "--json")
    assert first.returncode == 0, first.err
    assert first.out == "command|status|--json|/\n"
    assert "making" in first.err
    assert clone.extras == ["cpu", "embedded"]
    assert clone.builds == 1
    return clone.folder


@pytest.fixture
def clone(installed: Path) -> Iterator[Clone]:
    """The same clone for each test, as its first start left it."""
    kept = installed.with_name("kept")
    shutil.copytree(installed, kept, symlinks=True)
    clone = Clone.__new__(Clone)
    clone.folder = installed
    yield clone
    shutil.rmtree(installed)
    kept.rename(installed)


def test_the_second_start_hands_over_at_once(clone: Clone) -> None:
    second = clone.run("run", "a file.pdf")
    assert (second.out, second.err, second.returncode) == ("command|run|a file.pdf|/\n", "", 0)
    assert clone.builds == 1


def test_tests_run_in_the_repository_on_all_cores_with_the_extras_they_need(clone: Clone) -> None:
    tested = clone.run("test", "-q", "tests/domain")
    cores = len(os.sched_getaffinity(0))
    assert tested.out == f"pytest|-n|{cores}|-q|tests/domain|{clone.folder}\n"
    assert clone.extras == ["cpu", "dev", "embedded"]
    assert clone.builds == 2


@pytest.mark.parametrize("chosen", [["-n", "4"], ["-n0"], ["--numprocesses=3"], ["--pdb"]])
def test_a_choice_of_processes_is_respected(chosen: list[str]) -> None:
    assert runpy.run_path(str(RUN))["in_parallel"](chosen) == []


def test_extras_stay_when_a_command_needs_fewer(clone: Clone) -> None:
    clone.run("test")
    with (clone.folder / "pyproject.toml").open("a") as pyproject:
        pyproject.write("# changed\n")
    assert clone.run("status").returncode == 0
    assert clone.extras == ["cpu", "dev", "embedded"]
    assert clone.builds == 3


def test_a_changed_project_is_installed_again_into_the_same_environment(clone: Clone) -> None:
    marker = clone.folder / ".venv" / "marker"
    marker.touch()
    with (clone.folder / "pyproject.toml").open("a") as pyproject:
        pyproject.write("# changed\n")
    assert clone.run("status").returncode == 0
    assert clone.builds == 2
    assert marker.exists()


def test_an_installation_that_failed_is_tried_again(clone: Clone) -> None:
    (clone.folder / ".venv" / "installed-by-run.json").unlink()
    (clone.folder / "broken").touch()
    failed = clone.run("status")
    assert failed.returncode == 1
    assert failed.out == ""
    assert "can not be built" in failed.err
    assert "the next start tries again" in failed.err
    (clone.folder / "broken").unlink()
    assert clone.run("status").out == "command|status|/\n"


def test_an_environment_whose_python_is_gone_is_made_again(clone: Clone) -> None:
    (clone.folder / ".venv" / "bin" / "python").unlink()
    mended = clone.run("status")
    assert mended.out == "command|status|/\n", mended.err


def test_an_environment_that_was_half_made_is_completed(clone: Clone) -> None:
    (clone.folder / ".venv" / "installed-by-run.json").unlink()
    shutil.rmtree(clone.folder / ".venv" / "lib")
    completed = clone.run("status")
    assert completed.out == "command|status|/\n", completed.err


def test_two_first_starts_at_once_install_once(clone: Clone) -> None:
    (clone.folder / ".venv" / "installed-by-run.json").unlink()
    starts = [clone.start("one"), clone.start("two")]
    printed = [start.communicate()[0] for start in starts]
    assert printed == ["command|one|/\n", "command|two|/\n"]
    assert clone.builds == 2


def test_what_is_not_an_environment_is_left_alone(clone: Clone) -> None:
    venv = clone.folder / ".venv"
    shutil.rmtree(venv)
    venv.mkdir()
    (venv / "thesis.txt").touch()
    refused = clone.run("status")
    assert refused.returncode == 1
    assert "move it elsewhere" in refused.err
    assert (venv / "thesis.txt").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_can_not_be_written_is_refused_with_advice(clone: Clone) -> None:
    (clone.folder / ".venv" / "installed-by-run.json").unlink()
    clone.folder.chmod(0o500)
    refused = clone.run("status")
    clone.folder.chmod(0o700)
    assert refused.returncode == 1
    assert "cp -r" in refused.err


def test_pip_is_used_where_uv_fails(clone: Clone, tmp_path: Path) -> None:
    (clone.folder / ".venv" / "installed-by-run.json").unlink()
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    uv.chmod(0o755)
    made = clone.run("status", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert made.out == "command|status|/\n", made.err
    assert (tmp_path / "asked").read_text().startswith("pip install")


def make_wheel(index: Path, name: str, *needs: str) -> None:
    """Put an empty package into a folder that serves as pip's index."""
    info = f"{name.replace('-', '_')}-2.9.dist-info/"
    files = {
        info + "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.9\n"
        + "".join(f"Requires-Dist: {need}\n" for need in needs),
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "RECORD": "",
    }
    index.mkdir(exist_ok=True)
    with zipfile.ZipFile(index / f"{name.replace('-', '_')}-2.9-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


def with_torch(clone: Clone, index: Path) -> Any:
    return clone.run("status", MUNIMENT_EXTRAS="torch", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(index))


def test_further_extras_are_installed_when_asked_for(clone: Clone, index: Path) -> None:
    make_wheel(index, "torch")
    made = with_torch(clone, index)
    assert made.out == "command|status|/\n", made.err
    assert clone.extras == ["cpu", "embedded", "torch"]
    assert list(clone.folder.glob(".venv/lib/*/site-packages/torch-2.9.dist-info"))


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has a card")
def test_a_machine_without_a_card_is_spared_the_build_of_torch_for_cards(clone: Clone, index: Path) -> None:
    make_wheel(index, "torch", "nvidia-cublas")
    make_wheel(index, "nvidia-cublas")
    refused = with_torch(clone, index)
    assert refused.returncode == 1
    assert "for NVIDIA cards only (with nvidia-cublas, ...: several GB), and this machine has none" in refused.err
    assert "docs/gpu.md" in refused.err
    assert not list(clone.folder.glob(".venv/lib/*/site-packages/*-2.9.dist-info"))
    assert clone.run("status").out == "command|status|/\n"
