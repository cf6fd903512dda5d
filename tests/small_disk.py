"""A disk in memory, mounted for the eyes of one process alone."""

import subprocess

import pytest

_MOUNT = 'mount -t tmpfs -o size=64m,mode=700 tmpfs "$0" && exec "$@"'
_NAMESPACES = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))


def small_disk(at):
    """Return what is put before a command so that it sees a small disk there. Skips where nothing may be mounted."""
    for namespace in _NAMESPACES:
        prefix = (*namespace, "sh", "-c", _MOUNT, str(at))
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    pytest.skip("neither we nor a user namespace may mount a disk here")
