import pytest

from pipeline.domain.password import MAX_CHARACTERS, Password
from pipeline.ports.submissions import Submission

MARKER = "open sesame"


def test_a_password_is_not_in_what_is_printed_of_it_or_of_what_holds_it():
    submission = Submission(source_uri="s3://box/1.pdf", password=Password(MARKER))
    shown = [f"{submission}", repr(submission), f"{Password(MARKER)}", repr(Password(MARKER)), f"{[Password(MARKER)]}"]
    assert not [text for text in shown if MARKER in text]
    assert submission == Submission(source_uri="s3://box/1.pdf", password=Password(MARKER))


@pytest.mark.parametrize("value", ["", "a\0b", "x" * (MAX_CHARACTERS + 1)])
def test_what_can_be_no_password_is_refused_without_being_shown(value):
    with pytest.raises(ValueError, match="1 to 1000") as refusal:
        Password(value)
    assert not value or value not in str(refusal.value)
