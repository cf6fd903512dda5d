"""Log files of supervised processes."""

from pathlib import Path

from pipeline.embedded.logs import RotatingLog


def test_all_files_of_a_log_together_stay_under_the_bound(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "io.log", max_bytes=1_000, kept=3)
    for number in range(200):
        log.write(f"line {number:05}\n".encode() * 5)
    log.close()
    assert {path.name for path in tmp_path.iterdir()} == {"io.log", "io.log.1", "io.log.2"}
    assert all(path.stat().st_size <= 1_000 for path in tmp_path.iterdir())


def test_a_rotation_keeps_the_newest_lines_in_order(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "io.log", max_bytes=100, kept=3)
    for number in range(30):
        log.write(f"line {number}\n".encode())
    log.close()
    kept = "".join((tmp_path / name).read_text() for name in ("io.log.2", "io.log.1", "io.log"))
    numbers = [int(line.split()[1]) for line in kept.splitlines()]
    assert numbers == list(range(numbers[0], 30))


def test_a_log_is_continued_by_the_next_run(tmp_path: Path) -> None:
    for _ in range(2):
        log = RotatingLog(tmp_path / "io.log", max_bytes=100, kept=2)
        log.write(b"x" * 60)
        log.close()
    assert (tmp_path / "io.log").stat().st_size == 60
    assert (tmp_path / "io.log.1").stat().st_size == 60


def test_a_piece_larger_than_a_file_is_cut(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "io.log", max_bytes=100, kept=2)
    log.write(b"a" * 1_000)
    log.close()
    assert (tmp_path / "io.log").stat().st_size == 100


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "io.log")
    log.write(b"".join(f"{number}\n".encode() for number in range(100)))
    assert log.tail(lines=2) == "98\n99"
    log.close()
