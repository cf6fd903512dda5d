import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.languages import all_languages, foreign_share, language_pattern, parse_language
from tests.builders import STEADY

ENGLISH = "Permit me to introduce you"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("de", "de"),
        ("DE", "de"),
        ("deu", "de"),
        ("de-AT", "de"),
        ("de-Latf", "de-Latf"),
        ("de-Latf-DE", "de-Latf"),
        ("frk", "de-Latf"),
        ("pt-BR", "pt"),
        ("zh", "zh-Hans"),
        ("zh-TW", "zh-Hant"),
        ("zh-Hant-HK", "zh-Hant"),
        ("chi_sim", "zh-Hans"),
        ("sr-Cyrl", "sr"),
        ("grc", "grc"),
        ("nb", "no"),
    ],
)
def test_a_language_is_known_by_its_tags_and_by_tesseract_s_name(name, code):
    assert parse_language(name).code == code


@pytest.mark.parametrize("name", ["", "x", "english", "xx-Latn", None, 7, ["de"], "d" * 1000])
def test_what_is_no_language_is_refused_shortly(name):
    with pytest.raises(ValueError, match=r"language") as refused:
        parse_language(name)
    assert len(str(refused.value)) < 200


@STEADY
@given(st.from_regex(language_pattern(), fullmatch=True))
def test_what_looks_like_a_language_s_name_is_one(name):
    assert parse_language(name) in all_languages()


def test_every_language_is_found_by_what_it_is_written_down_as():
    for language in all_languages():
        assert parse_language(language.code) == parse_language(language.tesseract) == language


@pytest.mark.parametrize(
    ("text", "names", "share"),
    [
        (ENGLISH, ["en"], 0),
        (ENGLISH, ["ru"], 1),
        (ENGLISH, ["ru", "en"], 0),
        ("Москва", ["ru"], 0),
        ("Москва", ["de"], 1),
        ("中日战争", ["zh-Hans"], 0),
        ("中日ab", ["zh-Hans"], 0.5),
        ("ひらがなと漢字カタカナ", ["ja"], 0),
        ("12 : 30 – 45 %", ["ru"], 0),
        ("", ["ru"], 0),
    ],
)
def test_letters_of_other_scripts_are_foreign(text, names, share):
    assert foreign_share(text, [parse_language(name) for name in names]) == share
