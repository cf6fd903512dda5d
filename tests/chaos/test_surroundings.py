import os
from pathlib import Path

import pytest

from pipeline.adapters.database import connect
from pipeline.adapters.disruption import Disruption
from pipeline.chaos.surroundings import CHUNK_LEASE, environment
from pipeline.settings import read_settings


def test_a_drill_is_told_nothing_of_the_users_own_system_which_is_as_before_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUNIMENT_DATABASE__URL", "postgresql+psycopg://nobody@127.0.0.1:1/production")
    monkeypatch.setenv("muniment_objects__bucket", "archive")
    before = dict(os.environ)
    with environment(tmp_path / "home", slots=3):
        told = read_settings()
    assert os.environ == before
    assert told.database.url is None
    assert told.objects.bucket == "muniment"
    assert (told.devices.engine, told.devices.cpu_slots, told.leases.chunk) == ("simulated", 3, CHUNK_LEASE)
    # Nor does it share what lies outside a home.
    assert told.devices.lock_folder.is_relative_to(tmp_path)
    assert told.devices.temporary_folder.is_relative_to(tmp_path)


def test_servers_of_others_are_not_disrupted() -> None:
    engine = connect("postgresql+psycopg://nobody@127.0.0.1:1/none", actor="test")
    with pytest.raises(ValueError, match="servers of their own"):
        Disruption("redis://:secret@queue.example.org:6379/0", engine)
