"""Languages that a document may be in: how people and programs name them, and what they are written in."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache

_KNOWN = """
af afr Latin      ar ara Arabic     az aze Latin      be bel Cyrillic   bg bul Cyrillic   bn ben Bengali
bs bos Latin      ca cat Latin      cs ces Latin      cy cym Latin      da dan Latin      de deu Latin
de-Latf frk Latin el ell Greek      en eng Latin      eo epo Latin      es spa Latin      et est Latin
eu eus Latin      fa fas Arabic     fi fin Latin      fr fra Latin      ga gle Latin
gl glg Latin      grc grc Greek     he heb Hebrew     hi hin Devanagari hr hrv Latin      hu hun Latin
hy hye Armenian   id ind Latin      is isl Latin      it ita Latin      ja jpn Japanese   ka kat Georgian
kk kaz Cyrillic   ko kor Hangul     la lat Latin      lb ltz Latin      lt lit Latin      lv lav Latin
mk mkd Cyrillic   ms msa Latin      mt mlt Latin      nl nld Latin      no nor Latin      oc oci Latin
pl pol Latin      pt por Latin      ro ron Latin      ru rus Cyrillic   sk slk Latin      sl slv Latin
sq sqi Latin      sr srp Cyrillic   sv swe Latin      sw swa Latin      ta tam Tamil      th tha Thai
tr tur Latin      uk ukr Cyrillic   ur urd Arabic     vi vie Latin      yi yid Hebrew     zh-Hans chi_sim Han
zh-Hant chi_tra Han
"""
"""ISO 639-1 code, with an ISO 15924 script where it is not the usual one; Tesseract's name; script."""
_ALSO = {"zh": "zh-Hans", "zh-CN": "zh-Hans", "zh-SG": "zh-Hans", "zh-TW": "zh-Hant", "zh-HK": "zh-Hant", "nb": "no"}


_LETTERS = {"Han": {"CJK"}, "Japanese": {"CJK", "HIRAGANA", "KATAKANA"}, "Hangul": {"HANGUL", "CJK"}}
"""What the names of a script's letters begin with in Unicode, where that is not the script's own name."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Language:
    """A language in a script."""

    code: str
    """As BCP 47 has it, `de`, `zh-Hans`, `de-Latf` for German in Fraktur."""
    tesseract: str
    """The name of Tesseract's data for it."""
    script: str


def parse_language(name: object) -> Language:
    """Return the language of a BCP 47 tag, `de`, `pt-BR`, `zh-Hant`, or of one of Tesseract's names, `deu`.

    Regions and variants that make no difference in print are passed over. Raises: ValueError, if it is not known.
    """
    if not isinstance(name, str):
        raise ValueError("a language is named by a string")  # noqa: TRY004 - the callers collect ValueErrors
    parts = name.replace("_", "-").lower().split("-")
    for length in range(min(len(parts), 3), 0, -1):
        if found := _by_name().get("-".join(parts[:length])):
            return found
    raise ValueError(f"{name[:40]!r} is no language that is known here; those look like de, zh-Hans, de-Latf or deu")


def all_languages() -> frozenset[Language]:
    """Return every language that is known here."""
    return frozenset(_by_name().values())


def language_pattern() -> str:
    """Return what names of languages look like, as a regular expression: a known one, with whatever further parts."""
    names = {name for language in all_languages() for name in (language.code, language.tesseract)} | {*_ALSO}
    return rf"^({'|'.join(sorted(names))})(-[A-Za-z0-9]{{1,8}}){{0,3}}$"


def foreign_share(text: str, languages: Collection[Language]) -> float:
    """Return the share of a text's letters that none of the languages is written in."""
    own = frozenset(name for language in languages for name in _LETTERS.get(language.script, {language.script.upper()}))
    scripts = [_script(character) for character in text if character.isalpha()]
    return sum(script not in own for script in scripts) / len(scripts) if scripts else 0.0


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


@cache
def _by_name() -> dict[str, Language]:
    words = _KNOWN.split()
    known = [
        Language(code=code, tesseract=tesseract, script=script)
        for code, tesseract, script in zip(words[::3], words[1::3], words[2::3], strict=True)
    ]
    names = {language.code.lower(): language for language in known}
    names |= {language.tesseract.replace("_", "-"): language for language in known}
    return names | {name.lower(): names[code.lower()] for name, code in _ALSO.items()}
