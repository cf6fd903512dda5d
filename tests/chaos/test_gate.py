from pathlib import Path

from pipeline.chaos.gate import Gate


def test_pages_wait_while_it_is_held_but_for_a_moment_now_and_then(tmp_path: Path) -> None:
    path, now = tmp_path / "gate", 0.0
    gate = Gate(path, clock=lambda: now)
    assert path.exists()
    seen = []
    for now in (0.0, 0.1, 9.9, 10.1, 10.3, 20.2, 20.4, 20.6):
        gate.hold()
        seen.append((now, path.exists()))
    assert [at for at, is_open in seen if is_open] == [10.1, 20.4]
    gate.open()
    assert path.exists()
    gate.hold()
    assert not path.exists()
