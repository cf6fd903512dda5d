import pytest

from pipeline.domain.text_quality import garbled_count, odd_share, visible_count

ENGLISH = "Permit me to introduce you to the facility of facsimile transmission, first shown in 1843 (not 1850)."
CHINESE = "中日战争爆发后的形势与任务（一九三七年九月一日）"
GERMAN = "Die „Gartenwirthschaft“ im Jahre 1879: Ueberfluß an Straßen-Laternen, Schwarzbrot und O'Neills Schiff."
BAD = "ldtmdme Coreputer fa ~~~tnmirizes re~ult~ ##x rhievesf.ulttdenncebytherep€hthoft&aamongproedng"


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, GERMAN, "", "1879 — 12,5 %", "McDonald, IBM DB2, e-mail"])
def test_ordinary_text_has_no_odd_words(text: str) -> None:
    assert odd_share(text) == 0


def test_bad_recognition_has_many() -> None:
    assert odd_share(BAD) > 0.5


def test_a_short_stretch_of_it_weighs_by_its_length() -> None:
    assert 0.02 < odd_share(ENGLISH * 20 + BAD) < 0.1


def test_what_no_character_stands_for_is_counted() -> None:
    assert garbled_count("ab\ufffd\ue000c\x04") == 3


def test_hyphens_at_line_ends_bullets_and_white_space_are_not() -> None:
    assert garbled_count("acknowl\x02edge com\ufffepile \uf0b7 item\r\n\t") == 0


def test_only_what_leaves_a_mark_is_visible() -> None:
    assert visible_count(" a b\r\n\u3000c ") == 3
