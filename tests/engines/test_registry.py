"""Engines are found by entry point: ours, other people's, and those that can't run here."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline.cli import cli
from pipeline.domain.errors import ErrorCode, PipelineError
from pipeline.domain.languages import parse_language
from pipeline.domain.profiles import Profile
from pipeline.engines.rapidocr import RapidOcrEngine
from pipeline.engines.registry import Asked, check, create, find, names, offers, told, unread
from pipeline.engines.simulated import SimulatedEngine
from tests.pages import SAMPLE

THEIRS = """
from pipeline.engines.simulated import SimulatedEngine, Simulation
from pipeline.ports.engines import EnginePlugin, Reads

PLUGIN = EnginePlugin(
    name="theirs",
    reads=Reads.SEQUENCE,
    runs_on=("abacus",),
    needs="beads",
    revision="7",
    missing=lambda options: None if options.get("beads") else "no beads: set the option beads",
    create=lambda options: SimulatedEngine(Simulation(page_ms=int(options["beads"]))),
)
"""


@pytest.fixture
def their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An installed package that offers one engine that works, and one that does not even load."""
    (tmp_path / "theirs.py").write_text(THEIRS)
    metadata = tmp_path / "theirs-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[muniment.engines]\ntheirs = theirs:PLUGIN\nbroken = theirs:NOTHING\nother = theirs:PLUGIN\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    return "theirs"


def test_engines_are_made_by_name() -> None:
    assert isinstance(create("rapidocr", {}), RapidOcrEngine)
    assert isinstance(create("simulated", {}), SimulatedEngine)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(PipelineError, match="no engine abacus") as caught:
        create("abacus", {})
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE
    assert all(name in caught.value.message for name in names())


def test_an_installation_older_than_its_code_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # where no installed package is found
    with pytest.raises(PipelineError, match="names no engines: install it again") as caught:
        create("rapidocr", {})
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_an_engine_is_known_by_what_it_reads() -> None:
    asked = [parse_language(name) for name in ("zh", "ru", "de", "de-Latf", "vi", "ja")]
    assert [language.code for language in unread("rapidocr", {}, asked)] == ["ru", "vi"]
    assert unread("simulated", {}, asked) == []


def test_languages_reach_those_engines_that_can_be_told(their_package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told("rapidocr", {}, Asked(languages=("de",))) == {}
    monkeypatch.setattr("theirs.PLUGIN", replace(find("theirs"), is_told_languages=True))
    asked = Asked(languages=("de", "ru"))
    assert told("theirs", {"beads": 7, "languages": ["en"]}, asked) == {"beads": 7, "languages": ["de", "ru"]}
    assert told("theirs", {"languages": ["en"]}, Asked()) == {"languages": ["en"]}


def test_a_profile_reaches_those_engines_that_know_profiles() -> None:
    asked = Asked(profile=Profile.ACCURATE)
    assert told("rapidocr", {}, asked) == {"profile": "accurate"}
    assert told("ppocr-fast", {}, asked) == {}


def test_an_engine_of_another_package_is_one_of_ours(their_package: str) -> None:
    assert find(their_package).needs == "beads"
    assert isinstance(create(their_package, {"beads": "3"}), SimulatedEngine)


def test_an_engine_that_can_not_run_here_says_what_to_do(their_package: str) -> None:
    with pytest.raises(PipelineError, match="engine theirs can't run here: no beads: set the option beads") as caught:
        check(their_package, {})
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


@pytest.mark.parametrize(("name", "why"), [("broken", "can't be loaded"), ("other", "not the plugin of an engine")])
def test_a_plugin_that_is_none_is_listed_with_its_problem(their_package: str, name: str, why: str) -> None:
    [offer] = [offer for offer in offers({}) if offer.name == name]
    assert offer.plugin is None
    assert why in (offer.problem or "")
    with pytest.raises(PipelineError, match=why):
        create(name, {})


def test_options_that_an_engine_does_not_have_are_refused() -> None:
    with pytest.raises(PipelineError, match="rapidocr can't be made: it takes no options, got beads") as caught:
        create("rapidocr", {"beads": 3})
    assert caught.value.code is ErrorCode.ENGINE_UNAVAILABLE


def test_a_missing_library_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(PipelineError, match=r"cv2 not installed: pip install 'muniment\[cpu\]'"):
        create("rapidocr", {})


def test_the_command_lists_what_can_run_and_what_can_not(their_package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_DEVICES__ENGINE", their_package)
    lines = CliRunner().invoke(cli, ["engines", "--json"], catch_exceptions=False).stdout.splitlines()
    listed = {engine["name"]: engine for engine in map(json.loads, lines)}
    assert listed["rapidocr"] | {"revision": ""} == {
        "name": "rapidocr",
        "default": False,
        "reads": "page",
        "runs_on": ["cpu"],
        "needs": "extra cpu, which brings the weights; quicker with the extra fast",
        "revision": "",
        "available": True,
        "problem": None,
    }
    assert (listed["theirs"]["default"], listed["theirs"]["available"]) == (True, False)
    assert (listed["broken"]["reads"], listed["broken"]["available"]) == (None, False)
    told = CliRunner().invoke(cli, ["engines"], catch_exceptions=False).stdout
    assert "ok  rapidocr\n      reads a page at a time on cpu: ppocrv6" in told
    assert "no  theirs (default)" in told


def test_options_reach_an_engine_from_the_environment(their_package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNIMENT_DEVICES__ENGINE_OPTIONS__THEIRS__BEADS", "3")
    [line] = [
        line
        for line in CliRunner().invoke(cli, ["engines", "--json"]).stdout.splitlines()
        if json.loads(line)["name"] == their_package
    ]
    assert json.loads(line)["available"] is True


def test_run_refuses_an_engine_that_can_not_run_here_before_anything_starts(
    their_package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUNIMENT_HOME", str(tmp_path / "home"))
    result = CliRunner().invoke(cli, ["run", str(SAMPLE), "--engine", their_package])
    assert isinstance(result.exception, PipelineError)
    assert result.exception.code is ErrorCode.ENGINE_UNAVAILABLE
    assert not (tmp_path / "home").exists()
