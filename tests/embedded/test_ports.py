"""Ports on the loopback."""

import socket
from pathlib import Path

from pipeline.embedded.ports import HIGHEST, LOOPBACK, LOWEST, PortPicker


def test_a_home_gets_the_same_ports_again(tmp_path: Path) -> None:
    first, again = PortPicker(tmp_path), PortPicker(tmp_path)
    assert [first.pick() for _ in range(5)] == [again.pick() for _ in range(5)]


def test_no_port_is_given_twice_and_all_are_below_the_ephemeral_ones(tmp_path: Path) -> None:
    picker = PortPicker(tmp_path)
    ports = [picker.pick() for _ in range(100)]
    assert len(set(ports)) == 100
    assert all(LOWEST <= port <= HIGHEST for port in ports)


def test_a_port_in_use_is_passed_over(tmp_path: Path) -> None:
    port = PortPicker(tmp_path).pick()
    with socket.create_server((LOOPBACK, port)):
        assert PortPicker(tmp_path).pick() != port


def test_a_port_whose_partner_is_in_use_is_passed_over(tmp_path: Path) -> None:
    port = PortPicker(tmp_path).pick()
    with socket.create_server((LOOPBACK, port + 10_000)):
        assert PortPicker(tmp_path).pick() == port
        assert PortPicker(tmp_path).pick(with_offset=10_000) != port
