"""Where the API may listen."""

import socket
from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput, Unreachable
from lab.fake.certificates import make_tls_files
from web.listening import ServerSettings, address_of, listening


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_an_address_of_a_network_needs_tls_or_a_proxy(host: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="in the clear"):
        ServerSettings(host=host).check()
    ServerSettings(host=host, behind_proxy=True).check()
    files = make_tls_files(tmp_path, "127.0.0.1")
    ServerSettings(host=host, certificate=files.server, private_key=files.server_key).check()


def test_files_of_tls_must_be_two_and_belong_together(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path, "127.0.0.1")
    for certificate, key in ((files.server, None), (None, files.server_key), (files.server, files.client)):
        with pytest.raises(InvalidInput, match="TLS"):
            ServerSettings(certificate=certificate, private_key=key).check()


def test_a_taken_port_is_an_error_with_a_next_step() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(Unreachable, match="Choose another --port"),
        listening(ServerSettings(port=other.getsockname()[1])),
    ):
        pass


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "a" * 70 + ".com", "::1%none"])
def test_a_host_that_is_not_of_this_machine_is_an_error(host: str) -> None:
    with pytest.raises(Unreachable, match="cannot listen"), listening(ServerSettings(host=host, port=0)):
        pass


def test_any_free_port_is_named() -> None:
    settings = ServerSettings(port=0)
    with listening(settings) as listener:
        assert address_of(settings, listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_unix_socket_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with listening(ServerSettings(unix_socket=path)):
        assert path.is_socket()
    assert not path.exists()


def test_a_unix_socket_of_a_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listening(ServerSettings(unix_socket=path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_unix_socket_in_use_and_a_file_are_left_alone(tmp_path: Path) -> None:
    path, file = tmp_path / "api.sock", tmp_path / "file"
    file.write_text("mine")
    with listening(ServerSettings(unix_socket=path)):
        for taken in (path, file):
            with pytest.raises(Unreachable, match="cannot listen"), listening(ServerSettings(unix_socket=taken)):
                pass
        assert path.is_socket()
    assert file.read_text() == "mine"


@pytest.mark.parametrize("name", ["a" * 200, "no-folder/api.sock"])
def test_a_path_that_no_socket_can_have_is_an_error(name: str, tmp_path: Path) -> None:
    settings = ServerSettings(unix_socket=tmp_path / name)
    with pytest.raises(Unreachable, match="cannot listen"), listening(settings):
        pass
