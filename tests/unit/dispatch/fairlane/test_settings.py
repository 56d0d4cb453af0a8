"""Where settings come from, in which order, and what is said of a wrong one."""

import json
from pathlib import Path

import pytest

from dispatcher.model.errors import InvalidInput
from dispatcher.model.shown import MASK
from fairlane.settings import Settings, explain_settings, load_settings
from tests.unit.lab.test_addresses_in_force import started


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No fairlane.toml in the current directory but the test's own."""
    monkeypatch.chdir(tmp_path)


def source_of(name: str, options: dict[str, object] | None = None) -> tuple[object, str]:
    rows = {row.name: row for row in explain_settings(load_settings(options), options)}
    return rows[name].value, rows[name].source


def test_each_source_overrules_the_ones_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "pulsar.url"
    assert source_of(name) == (None, "default")

    started(tmp_path / "no-stack", pulsar=True, redis=True)
    assert source_of(name) == ("pulsar://127.0.0.1:1", "local stack")

    Path("fairlane.toml").write_text('[pulsar]\nurl = "pulsar://file:1"\n')
    assert source_of(name) == ("pulsar://file:1", "file fairlane.toml")
    assert source_of("redis.url") == ("redis://127.0.0.1:4/0", "local stack")

    monkeypatch.setenv("FAIRLANE_PULSAR_URL", "pulsar://env:1")
    assert source_of(name) == ("pulsar://env:1", "env FAIRLANE_PULSAR_URL")

    assert source_of(name, {"pulsar": {"url": "pulsar://option:1"}}) == ("pulsar://option:1", "option")


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("FAIRLANE_PULSAR_ADMIN_URL", "https://p:8443", "pulsar.admin_url", "https://p:8443"),
        ("FAIRLANE_REDIS_URL", "rediss://r:1/2", "redis.url", "rediss://r:1/2"),
        ("FAIRLANE_HTTP_URL", "http://push/x", "http.url", "http://push/x"),
        ("FAIRLANE_LOG_LEVEL", "debug", "log.level", "debug"),
        ("FAIRLANE_LOG_JSON", "1", "log.json", True),
        ("FAIRLANE_WORKER_DRAIN_TIMEOUT_S", "3", "worker.drain_timeout_s", 3.0),
        ("FAIRLANE_WORKER_CHANNELS", '{"apns": "my.apns:Apns"}', "worker.channels", {"apns": "my.apns:Apns"}),
    ],
)
def test_environment_names(variable: str, text: str, name: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    assert source_of(name) == (value, f"env {variable}")


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_HTTP_URL", "")
    assert load_settings().http.url is None


def test_the_file_can_be_named_by_option_and_by_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for where, level in (("a.toml", "debug"), ("b.toml", "error")):
        (tmp_path / where).write_text(f'[log]\nlevel = "{level}"\n')
    monkeypatch.setenv("FAIRLANE_CONFIG", str(tmp_path / "a.toml"))
    assert source_of("log.level") == ("debug", f"file {tmp_path}/a.toml")
    assert source_of("log.level", {"config": str(tmp_path / "b.toml")}) == ("error", f"file {tmp_path}/b.toml")


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_PASSWORD", "hush-1")
    monkeypatch.setenv("FAIRLANE_PULSAR_TOKEN", "hush-2")
    monkeypatch.setenv("FAIRLANE_REDIS_URL", "redis://me:hush-3@host:1/0")
    monkeypatch.setenv("FAIRLANE_HTTP_HEADERS", '{"Authorization": "hush-4"}')
    monkeypatch.setenv("FAIRLANE_HTTP_SIGNING_SECRET", "hush-6")
    monkeypatch.setenv("FAIRLANE_CHANNELS_MINE", '{"api_key": "hush-5", "topic": "seen"}')
    settings = load_settings()
    shown = json.dumps([row.value for row in explain_settings(settings)])
    assert "hush" not in shown
    assert "hush" not in repr(settings.redis.password)
    assert "seen" in shown
    assert f"redis://me:{MASK}@host:1/0" in shown
    assert settings.http.headers["Authorization"].get_secret_value() == "hush-4"
    assert settings.http.signing_secret is not None
    assert settings.http.signing_secret.get_secret_value() == "hush-6"


def test_credentials_in_addresses_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", "http://me:hush@host:8080")
    monkeypatch.setenv("FAIRLANE_HTTP_URL", "https://host/push?key=hush")
    rows = {row.name: row.value for row in explain_settings(load_settings())}
    assert rows["pulsar.admin_url"] == f"http://me:{MASK}@host:8080"
    assert rows["http.url"] == f"https://host/push?key={MASK}"
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", "ftp://me:hush@host:8080")
    with pytest.raises(InvalidInput, match=r"pulsar\.admin_url") as caught:
        load_settings()
    assert "hush" not in str(caught.value)


def test_a_channel_may_not_be_named_like_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_WORKER_CHANNELS", '{"push-partition-1": "mine:Push"}')
    with pytest.raises(InvalidInput, match="must not end with -partition-"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "text", "parts"),
    [
        ("FAIRLANE_PULSAR_URL", "localhost", ["pulsar.url", "env FAIRLANE_PULSAR_URL", "'localhost'", "pulsar://"]),
        ("FAIRLANE_PULSAR_URLL", "x", ["no setting pulsar.urll", "FAIRLANE_PULSAR_URLL"]),
        ("FAIRLANE_PULSAR_TLS_CERT", "c.pem", ["tls_cert and tls_key must be given together"]),
        ("FAIRLANE_HTTP_HEADERS", "X-Key: 1", ["FAIRLANE_HTTP_HEADERS", "not JSON"]),
        ("FAIRLANE_WORKER_CHANNELS", "not json", ["environment", "FAIRLANE_WORKER_CHANNELS", "JSON"]),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_what_is_allowed(
    variable: str, text: str, parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    for part in parts:
        assert part in caught.value.cause + caught.value.next_step
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("FAIRLANE_PULSAR_TENANT", "a b", "it must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"),
        ("FAIRLANE_WORKER_PROCESSES", "two", "it must be a whole number"),
        ("FAIRLANE_WORKER_PROCESSES", "0", "it must be 1 or more"),
        ("FAIRLANE_HTTP_TIMEOUT_S", "0", "it must be more than 0"),
        ("FAIRLANE_LOG_LEVEL", "loud", "it must be 'debug', 'info', 'warning' or 'error'"),
        (
            "FAIRLANE_HTTP_URL",
            "there",
            "it has the wrong form. Its meaning: URL that the http channel posts to, http://",
        ),
    ],
)
def test_what_is_allowed_is_said_in_our_words(
    variable: str, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not "String should match pattern '^[A-Za-z0-9]…'"."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidInput) as caught:
        Settings()
    assert f"(env {variable}) is {text!r}, which is not allowed: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tiers": []}, "tiers must name at least one tier"),
        ({"metrics_port": 65_534, "processes": 3}, "leaves too few ports for the further processes"),
    ],
)
def test_workers_that_could_not_serve_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_settings({"worker": values})
    assert load_settings({"worker": {"metrics_port": 65_534, "processes": 2}}).worker.processes == 2


def test_a_wrong_secret_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        load_settings({"redis": {"password": ["hush"]}})
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[pulsar", "not TOML"),
        (None, "cannot be read"),
        ("[nope]", "no setting"),
    ],
)
def test_a_wrong_file_is_named(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidInput, match=message) as caught:
        load_settings({"config": str(file)})
    assert str(file) in str(caught.value)


def test_a_home_that_is_no_path_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLANE_HOME")
    Path("fairlane.toml").write_text("home = 5\n")
    with pytest.raises(InvalidInput, match=r"Setting home \(file fairlane.toml\) is '5', which is not allowed"):
        load_settings()


def test_settings_are_frozen_and_usable_without_a_command_line() -> None:
    settings = Settings(redis={"url": "redis://mine:1"})
    assert settings.redis.url == "redis://mine:1"
    with pytest.raises(ValueError, match="frozen"):
        settings.redis.prefix = "other"


def test_channels_are_the_built_in_ones_and_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().channel_classes() == {"null": "null", "log": "log"}
    monkeypatch.setenv("FAIRLANE_HTTP_URL", "http://push")
    monkeypatch.setenv("FAIRLANE_WORKER_CHANNELS", '{"mine": "a.b:C"}')
    assert load_settings().channel_classes() == {"null": "null", "log": "log", "http": "http", "mine": "a.b:C"}
