"""Settings from their sources, and what is said of those that can't be used."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from pipeline.settings import Settings, SettingsError, SourceSettings, read_settings


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A settings file that counts."""
    path = tmp_path / "muniment.toml"
    monkeypatch.setenv("MUNIMENT_CONFIG", str(path))
    return path


@pytest.mark.parametrize(
    ("buckets", "tenant", "bucket", "is_allowed"),
    [
        ((), "library", "anything", True),
        ((), "museum", "scans", True),
        ((), "library", "scans", False),
        (("archive",), "library", "archive", True),
        (("archive",), "library", "anything", False),
        (("archive",), "museum", "scans", True),
        (("archive", "scans"), "library", "scans", False),
        ((), "library", "shared", True),
    ],
)
def test_a_bucket_is_for_all_or_for_its_tenants_alone(
    buckets: tuple[str, ...], tenant: str, bucket: str, is_allowed: bool
) -> None:
    own = {"museum": ("scans", "shared"), "library": ("shared",)}
    assert SourceSettings(buckets=buckets, tenant_buckets=own).allows_bucket(tenant, bucket) is is_allowed


def test_without_any_source_the_defaults_hold() -> None:
    assert read_settings() == Settings()


def test_the_environment_goes_before_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('[limits]\nmax_pages = 5\ndpi = 300\n[sources]\nfile_roots = ["/scans"]\n')
    monkeypatch.setenv("MUNIMENT_LIMITS__MAX_PAGES", "7")
    settings = read_settings()
    assert (settings.limits.max_pages, settings.limits.dpi, settings.sources.file_roots) == (7, 300, (Path("/scans"),))


@pytest.mark.parametrize("given", ["90", "90.0", "PT90S", "00:01:30"])
def test_durations_are_seconds_or_iso_8601(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("MUNIMENT_LEASES__STALL", given)
    assert read_settings().leases.stall == timedelta(seconds=90)


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_DATABASE__URL", "")
    assert read_settings().database.url is None


def test_all_problems_are_named_at_once(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("[limits]\nmax_page = 5\n[chunk]\n")
    monkeypatch.setenv("MUNIMENT_LIMITS__DPI", "9")
    monkeypatch.setenv("MUNIMENT_LEASES__STEP", "-1")
    monkeypatch.setenv("MUNIMENT_LIMIT__MAX_PAGES", "5")
    with pytest.raises(SettingsError) as raised:
        read_settings()
    named = [line.partition(":")[0] for line in str(raised.value).splitlines()]
    assert sorted(named) == ["MUNIMENT_LIMIT__MAX_PAGES", "chunk", "leases.step", "limits.dpi", "limits.max_page"]


def test_a_list_that_is_not_json_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_SOURCES__FILE_ROOTS", "/scans")
    with pytest.raises(SettingsError, match=r"sources.*JSON"):
        read_settings()


def test_engines_that_stand_in_for_each_other_in_a_circle_are_refused(config: Path) -> None:
    config.write_text('[devices.other_engine]\nunlimited_ocr = "ppocr-torch"\nppocr_torch = "rapidocr"\n')
    assert read_settings().devices.other_engine == {"unlimited-ocr": "ppocr-torch", "ppocr-torch": "rapidocr"}
    config.write_text('[devices.other_engine]\na-b = "c"\nc = "a-b"\n')
    with pytest.raises(SettingsError, match="a-b -> c -> a-b never ends"):
        read_settings()


def test_variables_of_other_kinds_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_TRACEBACK", "1")
    monkeypatch.setenv("OTHER_LIMIT__MAX_PAGES", "1")
    read_settings()


def test_a_secret_is_in_no_message_and_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_OBJECTS__SECRET_KEY", "hush")
    monkeypatch.setenv("MUNIMENT_DATABASE__URL", "postgresql+psycopg://u:hush@h/d")
    assert "hush" not in repr(read_settings())
    monkeypatch.setenv("MUNIMENT_OBJECTS__ENDPOINTS", "hush")
    with pytest.raises(SettingsError) as raised:
        read_settings()
    assert "hush" not in str(raised.value)


def test_secrets_come_from_files_and_passwords_go_into_urls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "database__password").write_text("a/b@c\n")
    (tmp_path / "broker__password").write_text("hush")
    (tmp_path / "objects__secret_key").write_text("from the file")
    (tmp_path / "of_somebody_else").write_text("left alone")
    monkeypatch.setenv("MUNIMENT_SECRETS", str(tmp_path))
    monkeypatch.setenv("MUNIMENT_DATABASE__URL", "postgresql+psycopg://muniment@postgres:5432/muniment?sslmode=require")
    monkeypatch.setenv("MUNIMENT_BROKER__URL", "redis://valkey/0")
    monkeypatch.setenv("MUNIMENT_OBJECTS__SECRET_KEY", "from the environment")
    settings = read_settings()
    assert settings.database.url
    assert settings.broker.url
    url = "postgresql+psycopg://muniment:a%2Fb%40c@postgres:5432/muniment?sslmode=require"
    assert settings.database.url.get_secret_value() == url
    assert settings.broker.url.get_secret_value() == "redis://:hush@valkey/0"
    assert settings.objects.secret_key.get_secret_value() == "from the environment"
    assert "hush" not in repr(settings)


def test_a_secret_file_of_an_unknown_name_is_a_problem_like_any_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "database__pasword").write_text("hush")
    monkeypatch.setenv("MUNIMENT_SECRETS", str(tmp_path))
    with pytest.raises(SettingsError, match=r"^database\.pasword: ") as raised:
        read_settings()
    assert "hush" not in str(raised.value)
    monkeypatch.setenv("MUNIMENT_SECRETS", str(tmp_path / "nowhere"))
    with pytest.raises(SettingsError, match=r"MUNIMENT_SECRETS: .* can't be read"):
        read_settings()


def test_a_stack_that_can_not_start_for_its_settings_says_so_in_lines(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.embedded", f"--home={tmp_path / 'home'}"],
        env={**os.environ, "MUNIMENT_LIMITS__DPI": "9", "MUNIMENT_LEASES__STALL": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["limits.dpi", "leases.stall"]
    assert not (tmp_path / "home").exists()
