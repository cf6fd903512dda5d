import click
import pytest
from click.testing import CliRunner

from pipeline.cli import cli
from pipeline.commands.passwords import given_password, password_options


@click.command()
@password_options
def command(**options):
    password = given_password(**options)
    click.echo("none" if password is None else password.reveal)


def given(*arguments, stdin=None):
    return CliRunner().invoke(command, arguments, input=stdin)


@pytest.mark.parametrize("content", [b"open sesame", b"open sesame\n", b"open sesame\r\n", b"\xef\xbb\xbfopen sesame"])
def test_a_file_of_one_line_is_a_password_however_it_was_written(tmp_path, content):
    path = tmp_path / "password"
    path.write_bytes(content)
    assert given("--password-file", str(path)).output == "open sesame\n"


def test_spaces_belong_to_it(tmp_path):
    path = tmp_path / "password"
    path.write_text(" open sesame \n")
    assert given("--password-file", str(path)).output == " open sesame \n"


def test_standard_input_and_the_terminal_give_it_as_well():
    assert given("--password-file", "-", stdin="open sesame\n").output == "open sesame\n"
    asked = given("--ask-password", stdin="open sesame\n")
    assert asked.stdout == "open sesame\n"
    assert "open sesame" not in asked.stderr


def test_most_documents_need_none():
    assert given().output == "none\n"


@pytest.mark.parametrize(
    ("content", "said"), [(b"one\ntwo\n", "more than one line"), (b"\xff\xfe", "not UTF-8"), (b"", "1 to 1000")]
)
def test_a_file_that_holds_no_password_is_refused_without_being_shown(tmp_path, content, said):
    path = tmp_path / "password"
    path.write_bytes(content)
    refused = given("--password-file", str(path))
    assert refused.exit_code == 2
    assert said in refused.output
    assert "two" not in refused.output


def test_both_at_once_are_refused(tmp_path):
    path = tmp_path / "password"
    path.write_text("one")
    assert given("--password-file", str(path), "--ask-password").exit_code == 2


@pytest.mark.parametrize("name", ["run", "submit", "retry"])
def test_the_commands_that_take_documents_take_it(name):
    command = cli.get_command(click.Context(cli), name)
    assert {"password_file", "ask_password"} <= {parameter.name for parameter in command.params}
