from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.errors import ErrorCode, Rejected
from pipeline.domain.languages import all_languages, parse_language
from pipeline.domain.options import JobOptions, LanePolicy, OutputFormat, PoorLayers, options_to_json, parse_options
from pipeline.domain.page_selection import parse_pages
from pipeline.domain.profiles import Profile
from tests.builders import STEADY


def refusal(options):
    with pytest.raises(Rejected) as refused:
        parse_options(options)
    assert refused.value.code is ErrorCode.INVALID_OPTIONS
    return refused.value.message


def test_a_row_without_options_gets_the_defaults():
    assert parse_options({}) == JobOptions(
        lane=LanePolicy.AUTO,
        engine=None,
        profile=Profile.BALANCED,
        dpi=None,
        formats=(OutputFormat.JSON, OutputFormat.MARKDOWN, OutputFormat.TEXT),
        pages=None,
    )


def test_all_options_are_read():
    options = parse_options(
        {
            "lane": "gpu",
            "engine": "rapidocr",
            "profile": "accurate",
            "dpi": 300,
            "languages": ["deu", "zh-CN", "de"],
            "words": True,
            "visual_tokens": 544,
            "formats": ["text", "json", "text"],
        }
    )
    assert options == JobOptions(
        lane=LanePolicy.GPU,
        engine="rapidocr",
        profile=Profile.ACCURATE,
        dpi=300,
        languages=(parse_language("de"), parse_language("zh-Hans")),
        words=True,
        visual_tokens=544,
        formats=(OutputFormat.JSON, OutputFormat.TEXT),
    )


def test_every_problem_is_named_at_once():
    message = refusal({"lane": "fast", "engine": "", "dpi": 20, "formats": ["pdf"], "langauge": "zh"})
    for named in ("lane", "'fast'", "engine", "dpi", "20", "formats", "'pdf'", "'langauge'"):
        assert named in message


@pytest.mark.parametrize(
    "options",
    [
        {"dpi": True},
        {"dpi": "300"},
        {"dpi": 35.9},
        {"dpi": 1201},
        {"dpi": float("nan")},
        {"lane": None},
        {"lane": ["cpu"]},
        {"engine": "../../etc"},
        {"engine": 7},
        {"words": 1},
        {"profile": "slow"},
        {"reuse": "no"},
        {"poor_layers": "drop"},
        {"profile": None},
        {"visual_tokens": 255},
        {"visual_tokens": 544.0},
        {"visual_tokens": True},
        {"languages": "de"},
        {"languages": ["klingon"]},
        {"languages": [7]},
        {"languages": ["de"] * 9},
        {"formats": []},
        {"formats": "json"},
        {"formats": [["json"]]},
        {"formats": None},
        {"pages": ""},
        {"pages": 3},
        {"pages": "3-2"},
        {"pages": "0"},
        {"": 1},
    ],
)
def test_a_value_that_is_not_meant_is_refused(options):
    assert next(iter(options)) in refusal(options)


@pytest.mark.parametrize("options", [None, [], "lane", 3])
def test_options_that_are_no_object_are_refused(options):
    assert "must be an object" in refusal(options)


def test_a_long_wrong_value_is_not_repeated_in_full():
    assert len(refusal({"lane": "x" * 10_000})) < 200


@STEADY
@given(
    st.builds(
        JobOptions,
        lane=st.sampled_from(LanePolicy),
        engine=st.none() | st.sampled_from(["rapidocr", "deepseek-ocr2"]),
        profile=st.sampled_from(Profile),
        dpi=st.none() | st.floats(36, 1200) | st.integers(36, 1200),
        languages=st.lists(st.sampled_from(sorted(all_languages())), max_size=8, unique=True).map(tuple),
        words=st.booleans(),
        poor_layers=st.sampled_from(PoorLayers),
        reuse=st.booleans(),
        visual_tokens=st.none() | st.integers(256, 1120),
        formats=st.sets(st.sampled_from(OutputFormat), min_size=1).map(
            lambda chosen: tuple(name for name in OutputFormat if name in chosen)
        ),
        pages=st.none() | st.sampled_from(["3", "3-", "1-2,7", "2,20-"]).map(parse_pages),
    )
)
def test_options_written_to_a_row_are_read_back_unchanged(options):
    assert parse_options(options_to_json(options)) == options


@STEADY
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["lane", "dpi", "formats"]), inner),
    )
)
def test_whatever_json_stands_on_the_row_it_is_read_or_rejected(value):
    with suppress(Rejected):
        assert isinstance(parse_options(value), JobOptions)
