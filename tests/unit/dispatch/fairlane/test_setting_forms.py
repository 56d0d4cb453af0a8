"""Settings as environments give them: variables that others write, addresses and tokens that are not quite right."""

import pytest
from pydantic import ValidationError

from backends.redis.client import connect
from backends.settings import PulsarSettings, RedisSettings
from dispatcher.model.errors import InvalidInput
from fairlane.settings import explain_settings, load_settings


def links_of(service: str, host: str = "10.0.0.9") -> dict[str, str]:
    """The variables that Kubernetes puts into every pod for a service with a named port."""
    name = service.upper().replace("-", "_")
    address = f"tcp://{host}:6379"
    return {
        f"{name}_SERVICE_HOST": host,
        f"{name}_SERVICE_PORT": "6379",
        f"{name}_SERVICE_PORT_MAIN": "6379",
        f"{name}_PORT": address,
        f"{name}_PORT_6379_TCP": address,
        f"{name}_PORT_6379_TCP_PROTO": "tcp",
        f"{name}_PORT_6379_TCP_PORT": "6379",
        f"{name}_PORT_6379_TCP_ADDR": host,
        f"{name}_PORT_53_UDP": f"udp://{host}:53",
        f"{name}_PORT_53_UDP_ADDR": host,
    }


@pytest.mark.parametrize(
    "service",
    [
        *("fairlane", "fairlane-redis", "fairlane-redis-master", "fairlane-worker", "fairlane-worker-metrics"),
        *("fairlane-pulsar", "fairlane-http", "fairlane-log", "fairlane-journal", "fairlane-estate"),
        *("fairlane-producer", "fairlane-channels", "fairlane-token-forms", "fairlane-home", "fairlane-tables"),
    ],
)
@pytest.mark.parametrize("host", ["10.0.0.9", "[fd00::9]"])
def test_variables_of_kubernetes_services_are_no_settings(
    service: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_PREFIX", "mine")
    expected = explain_settings(load_settings())
    for name, text in links_of(service, host).items():
        monkeypatch.setenv(name, text)
    assert explain_settings(load_settings()) == expected


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        (
            "FAIRLANE_REDIS_PASSWRD",
            "x",
            "There is no setting redis.passwrd (env FAIRLANE_REDIS_PASSWRD). The nearest is redis.password.",
        ),
        ("FAIRLANE_REDIS_PORT", "6379", "There is no setting redis.port (env FAIRLANE_REDIS_PORT)."),
        ("FAIRLANE_REDIS_PORT", "http://10.0.0.9:6379", "There is no setting redis.port"),
        ("FAIRLANE_REDIS_SERVICE", "x", "There is no setting redis.service"),
        ("FAIRLANE_REDIS_HOST", "x", "There is no setting redis.host"),
        ("FAIRLANE_WORKER_METRICS_PRT", "1", "The nearest is worker.metrics_port."),
    ],
)
def test_other_unknown_variables_are_refused_with_the_nearest_name(
    variable: str, value: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    assert named in str(caught.value)


def test_a_port_that_is_a_setting_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_WORKER_METRICS_PORT", "9464")
    assert load_settings().worker.metrics_port == 9464


REFUSED_URLS = {
    "redis://keys:p@ss/w:rd#1@h:6379/0": "its password has / ? or # as they are",
    "redis://:s3#cret@h:6379/0": "its password has / ? or # as they are",
    "redis://:12/34@h": "its password has / ? or # as they are",
    "rediss://:a?b@h": "its password has / ? or # as they are",
    "redis://h:6379/0?ssl_cert_reqs=none": "there is no option 'ssl_cert_reqs' in it. TLS is set by rediss://",
    "redis://h:6379/0?nonsense=1": "there is no option 'nonsense' in it",
    "redis://h:6379/0?db=1&Db=2": "there is no option 'Db' in it",
    "unix:///tmp/x.sock?ssl_keyfile=a": "there is no option 'ssl_keyfile' in it",
}


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_an_address_of_redis_that_would_be_misread_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_URL", url)
    with pytest.raises(InvalidInput) as caught:
        load_settings()
    assert REFUSED_URLS[url] in str(caught.value)
    assert "s3#" not in str(caught.value)
    assert "ss/w" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "redis://h",
            "redis://h:1/0",
            "redis://u:p%2Fw%40@h/0",
            "redis://:a:b@h",
            "redis://u:p@ss@h",
            "unix:///a/b@c",
        ),
        *("rediss://h?ssl_cert_reqs=none&db=1", "redis://h?db=1&client_name=x&protocol=3", "redis+sentinel://h:1/main"),
    ],
)
def test_an_address_of_redis_that_is_unambiguous_is_read_without_white_space(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLANE_REDIS_URL", f" {url}\r\n")
    assert load_settings().redis.url == url


@pytest.mark.parametrize(("option", "named"), [("ssl_cert_reqs=never", "never"), ("db=x", "'db'"), ("db=1&db=2", "")])
def test_an_option_that_the_vendor_does_not_take_is_named(option: str, named: str) -> None:
    settings = RedisSettings(url=f"rediss://h:1/0?{option}")
    if named:
        with pytest.raises(InvalidInput, match=named):
            connect(settings)
    else:
        connect(settings).close()


@pytest.mark.parametrize("written", ["tok\n", " tok ", "tok\r\n", "\ufefftok", '"tok"', "'tok'\n"])
def test_what_surrounds_a_token_is_not_part_of_it(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_PULSAR_TOKEN", written)
    token = load_settings().pulsar.token
    assert token is not None
    assert token.get_secret_value() == "tok"


@pytest.mark.parametrize("written", ["to\nken", "to ken", "tokén", "to\x00ken"])
def test_a_token_that_is_no_word_is_refused_without_being_shown(written: str) -> None:
    with pytest.raises(ValidationError, match="a token is one word") as caught:
        PulsarSettings.model_validate({"token": written})
    assert "ken" not in str(caught.value).replace("token", "")
