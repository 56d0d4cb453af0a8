"""No text that leaves the process has a secret that it knows: each secret, through each failure."""

import html
import json
import logging
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import click
import pytest
from pydantic import SecretStr, ValidationError

from backends.pulsar import admin
from backends.settings import PulsarSettings, RedisSettings
from consumers.delivery.channels.http_answer import AnswerReader, HttpAnswer
from consumers.delivery.push import google_tokens
from consumers.delivery.push.credentials import CredentialSource
from dispatcher.channels import apns_answers, fcm_answers
from dispatcher.model.errors import InvalidInput, Unreachable
from dispatcher.model.shown import MASK, hide, without_credentials
from dispatcher.model.values import text_of
from dispatcher.verdicts import error_text, read_reports
from dispatcher.wire.outcome import RETRY, Report, Verdict
from estate.masking import Masker
from fairlane.cli.base.output import Output, say
from fairlane.cli.main import run
from fairlane.logging import configure_logging, masked
from fairlane.setting_groups import LogSettings
from fairlane.settings import load_settings
from tests.unit.dispatch.consumers.envelopes import envelope
from tests.unit.dispatch.fairlane.spawned_worker import SECRET

GONE = "127.0.0.1:9"
P8 = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49Hush0AQ\nIBBG0wawIBAQQhush2\n-----END PRIVATE KEY-----\n"
KEY = "MIGHAgEAMBMGByqGSM49Hush7AgEGCCqGSM49AwEHBG0wawIBAQQgHush8cJu5FNKaWhuDLKHWI"
APNS = {"apps": {"shop": {"topic": "a.b", "key_id": "K", "team_id": "T", "credentials": "env:SHOP_KEY"}}}
FCM = {"apps": {"shop": {"project_id": "shop", "credentials": "env:SHOP_KEY"}}}


@dataclass(frozen=True)
class Secret:
    """Variables that hold a secret."""

    variables: dict[str, str]
    parts: tuple[str, ...]
    """The part that nobody may see."""
    whole: tuple[str, ...] = ()
    """The secret as it is used, unless it is the first part."""
    credential: str = ""
    """The reference of the secret, if it is a credential."""


def channels(**given: object) -> dict[str, str]:
    return {"FAIRLANE_CHANNELS": json.dumps(given)}


SECRETS = {
    "Pulsar's token": Secret({"FAIRLANE_PULSAR_TOKEN": "tok-SECRET-1"}, ("tok-SECRET-1",)),
    "the token with a line break": Secret({"FAIRLANE_PULSAR_TOKEN": "tok-SECRET-2\n"}, ("tok-SECRET-2",)),
    "the token with one inside": Secret(
        {"FAIRLANE_PULSAR_TOKEN": "tok-SEC\nRET-3"}, ("tok-SEC", "RET-3"), ("tok-SEC\nRET-3",)
    ),
    "Redis' password": Secret({"FAIRLANE_REDIS_PASSWORD": 'pa"ss\\w/4'}, ('pa"ss', 'pa\\"ss', "w/4"), ('pa"ss\\w/4',)),
    "the password of an address": Secret(
        {"FAIRLANE_REDIS_URL": f"redis://keys:{quote('p@ss/w:5', safe='')}@{GONE}/0"}, ("p@ss/w:5", "p%40ss")
    ),
    "a password that is not escaped": Secret(
        {"FAIRLANE_REDIS_URL": f"redis://keys:p@ss/w:rd#6@{GONE}/0"}, ("p@ss", "ss/w", "w:rd", "rd#6"), ("p@ss/w:rd#6",)
    ),
    "a password instead of a port": Secret({"FAIRLANE_REDIS_URL": "redis://keys:s3cret-7"}, ("s3cret-7",)),
    "the Sentinels' password": Secret({"FAIRLANE_REDIS_SENTINEL_PASSWORD": "watch-hush-8"}, ("watch-hush-8",)),
    "the user of Pulsar's address": Secret({"FAIRLANE_PULSAR_ADMIN_URL": f"http://admin:hush-9@{GONE}"}, ("hush-9",)),
    "a header": Secret({"FAIRLANE_HTTP_HEADERS": '{"Authorization": "Bearer hush-10.x"}'}, ("hush-10.x",)),
    "the signing secret": Secret(
        {"FAIRLANE_HTTP_SIGNING_SECRET": "whsec_aHVzaC1odXNoLWh1c2gtaHVzaC1odXNo"},
        ("aHVzaC1odXNo",),
        ("aHVzaC1odXNoLWh1c2gtaHVzaC1odXNo",),
    ),
    "the address of the http channel": Secret(
        {"FAIRLANE_HTTP_URL": f"https://me:hush-12@{GONE}/push?api_key=hush-13"}, ("hush-12", "hush-13")
    ),
    "a key in the place of its file": Secret(
        {"FAIRLANE_REDIS_TLS_KEY": KEY, "FAIRLANE_PULSAR_TLS_KEY": KEY, "FAIRLANE_PULSAR_TLS_CERT": "cert.pem"},
        ("MIGHAgEAMBMGByqGSM49Hush7", "AgEGCCqGSM49AwEHBG0wawIBAQQgHush8"),
        (KEY,),
    ),
    "a proxy": Secret(
        channels(fcm={"apps": {"shop": {**FCM["apps"]["shop"], "proxy": f"http://me:hush-14@{GONE}"}}}), ("hush-14",)
    ),
    "a key of APNs": Secret(
        {**channels(apns=APNS), "SHOP_KEY": P8.replace("\n", "\\n")},
        ("MIGHAgEAMBMGByqGSM49Hush0AQ", "IBBG0wawIBAQQhush2"),
        credential="env:SHOP_KEY",
    ),
    "a service account": Secret(
        {
            **channels(fcm=FCM),
            "SHOP_KEY": json.dumps(
                {"type": "service_account", "private_key": P8, "token_uri": f"http://{GONE}/?key=hush-16"}
            ),
        },
        ("MIGHAgEAMBMGByqGSM49Hush0AQ", "IBBG0wawIBAQQhush2", "hush-16"),
        credential="env:SHOP_KEY",
    ),
    "a setting of an own channel": Secret(
        {**channels(mine={"api_key": "hush-17-long"}), "FAIRLANE_WORKER_CHANNELS": '{"mine": "mine:Mine"}'},
        ("hush-17-long",),
    ),
}


class SecretUse:
    """One secret in the environment, and what became visible of it."""

    def __init__(self, secret: Secret, capsys: pytest.CaptureFixture[str]) -> None:
        self._secret, self._capsys = secret, capsys
        self.written = ""

    def leak(self) -> str:
        """A text of some library that has the whole secret, as it is set and as it is read."""
        values = [*self._secret.variables.values(), *(self._secret.whole or self._secret.parts[:1])]
        return f"Invalid header value {values!r}: {' '.join(values)} {json.dumps(values)}"

    def learn(self) -> None:
        """Read the secret, as a command does before it uses it."""
        try:
            load_settings()
        except InvalidInput as error:
            self.written += str(error)
        if self._secret.credential:
            CredentialSource(self._secret.credential).current()

    def command(self, *arguments: str) -> None:
        run([*arguments])
        self.read()

    def process(self, *arguments: str) -> None:
        """Run a command that ends its process."""
        done = subprocess.run(
            [sys.executable, "-m", "fairlane", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode
        self.written += done.stdout + done.stderr

    def fails(self, *options: str) -> None:
        """Run a command that raises an error of a library."""
        self.learn()

        @click.command()
        @click.option("--log-level")
        def fail(log_level: str | None) -> None:
            raise ValueError(self.leak())

        run([*options], fail)
        self.read()

    def logs(self, *, as_json: bool) -> None:
        self.learn()
        with redirect_stderr(sys.stderr):
            configure_logging(LogSettings(json=as_json))
        try:
            raise ValueError(self.leak())
        except ValueError:
            logging.getLogger("x").exception("it failed: %s", self.leak(), extra={"more": {"a": [self.leak()]}})
        self.read()

    def read(self) -> None:
        shown = self._capsys.readouterr()
        self.written += shown.out + shown.err


def unhandled(use: SecretUse) -> None:
    """Print as the interpreter does an exception that nobody catches."""
    use.learn()
    with redirect_stderr(masked(sys.stderr)):
        try:
            raise ValueError(use.leak())
        except ValueError:
            traceback.print_exc()
            sys.excepthook(*sys.exc_info())
        sys.stderr.write(warnings.formatwarning(use.leak(), UserWarning, "x", 1))
    use.read()


def in_a_thread(use: SecretUse) -> None:
    use.learn()

    def fail() -> None:
        raise ValueError(use.leak())

    hook, threading.excepthook = threading.excepthook, threading.__excepthook__
    with redirect_stderr(masked(sys.stderr)):
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    threading.excepthook = hook
    use.read()


def as_error(use: SecretUse) -> None:
    use.learn()
    error = Unreachable(f"It failed: {use.leak()}.", use.leak())
    use.written += f"{error} {error!r} {error.cause} {error.next_step}"


def as_data(use: SecretUse, output: Output) -> None:
    use.learn()
    output.emit_record({"why": use.leak(), "more": [{"deep": use.leak()}], "path": Path(use.leak())})
    output.emit_rows([{"why": use.leak()}], ["why"])
    use.written += text_of({"why": use.leak()})
    say(use.leak())
    use.read()


def in_a_capture(use: SecretUse) -> None:
    use.learn()
    masker = Masker()
    use.written += masker.text(use.leak()) + json.dumps(masker.document({"why": [use.leak()]}))


def as_reason(use: SecretUse) -> None:
    """The reason of a channel goes into outcome records, Redis and tables."""
    use.learn()
    (report,) = read_reports([Report(Verdict(RETRY, use.leak()))], [envelope()], lambda _: None)
    use.written += f"{report} {error_text(ValueError(use.leak()))}"


def in_a_library(use: SecretUse) -> None:
    """Pydantic's words on settings that a program makes itself."""
    models: tuple[type[PulsarSettings | RedisSettings], ...] = (PulsarSettings, RedisSettings)
    for model in models:
        prefix = f"FAIRLANE_{model.__name__.removesuffix('Settings').upper()}_"
        given = {
            name.removeprefix(prefix).lower(): value for name, value in os.environ.items() if name.startswith(prefix)
        }
        try:
            use.written += repr(model.model_validate({**given, "wrong": "x"}))
        except ValidationError as error:
            use.written += str(error)


FAILURES: dict[str, Callable[[SecretUse], None]] = {
    "config show": lambda use: use.command("config", "show"),
    "config show as JSON": lambda use: use.command("config", "show", "-o", "json"),
    "a command without Redis": lambda use: use.command("task", "list"),
    "a command without Redis, with tracebacks": lambda use: use.command("--log-level", "debug", "task", "list"),
    "provision without Pulsar": lambda use: use.command("provision"),
    "provision with tracebacks": lambda use: use.command("--log-level", "debug", "provision"),
    "doctor without servers": lambda use: use.command("doctor"),
    "doctor as JSON": lambda use: use.command("doctor", "-o", "json"),
    "a worker without servers": lambda use: use.process("--log-json", "--log-level", "debug", "worker"),
    "channel check fcm": lambda use: use.command("--log-level", "debug", "channel", "check", "fcm", "--app", "shop"),
    "channel check apns": lambda use: use.command("--log-level", "debug", "channel", "check", "apns", "--app", "shop"),
    "an error of a library": lambda use: use.fails(),
    "its traceback": lambda use: use.fails("--log-level", "debug"),
    "a log line": lambda use: use.logs(as_json=False),
    "a log line as JSON": lambda use: use.logs(as_json=True),
    "an exception that nobody catches": unhandled,
    "an exception in a thread": in_a_thread,
    "an error of Fairlane": as_error,
    "a table": lambda use: as_data(use, Output()),
    "JSON": lambda use: as_data(use, Output(as_json=True)),
    "a capture": in_a_capture,
    "a reason of a channel": as_reason,
    "settings of a program": in_a_library,
}


@pytest.fixture
def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_PULSAR_URL", f"pulsar://{GONE}")
    monkeypatch.setenv("FAIRLANE_PULSAR_ADMIN_URL", f"http://{GONE}")
    monkeypatch.setenv("FAIRLANE_REDIS_URL", f"redis://{GONE}/0")
    monkeypatch.setenv("FAIRLANE_PULSAR_CONNECT_TIMEOUT_S", "0.2")


@pytest.mark.usefixtures("_nowhere")
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("secret", SECRETS)
def test_no_failure_shows_a_secret(
    secret: str, failure: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in SECRETS[secret].variables.items():
        monkeypatch.setenv(name, value)
    use = SecretUse(SECRETS[secret], capsys)
    FAILURES[failure](use)
    assert use.written
    assert not [part for part in SECRETS[secret].parts if part in use.written], use.written


def of_http(status: int, text: str) -> str:
    return str(AnswerReader("http", strict=True).report(["t"], HttpAnswer(status, {}, text.encode()), 0.0))


def of_fcm(text: str) -> str:
    return fcm_answers.read_answer(400, json.dumps({"error": {"message": text}}).encode()).reason


CUTS: dict[str, Callable[[str], str]] = {
    "a page of the http channel": lambda text: of_http(500, text),
    "a page instead of an answer": lambda text: of_http(200, text),
    "a field of an answer": lambda text: of_http(200, json.dumps({text: 1})),
    "a reason of the http channel": lambda text: of_http(
        200, json.dumps({"failed": [{"target": "t", "reason": text}]})
    ),
    "a reason of FCM": of_fcm,
    "a reason of APNs": lambda text: apns_answers.read_answer(400, json.dumps({"reason": text}).encode()).reason,
    "a reason of Pulsar": lambda text: admin._reason(json.dumps({"reason": text}).encode()),  # noqa: SLF001
    "a reason of an issuer": lambda text: google_tokens._cause(ValueError(text)),  # noqa: SLF001
    "a reason of a channel": lambda text: str(read_reports([Report(Verdict(RETRY, text))], [envelope()], print)),
    "an exception of a channel": lambda text: error_text(ValueError(text)),
}
"""The part of a foreign text that is kept."""


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_text_that_is_cut_within_a_secret_shows_no_part_of_it(cut: Callable[[str], str]) -> None:
    hide("hush-a-hush-b-hush-c-24")
    for before in (*range(150, 310), *range(990, 1_030)):
        assert "hush-a" not in cut(f"{'x' * before} hush-a-hush-b-hush-c-24 {'y' * 2_000}")


WRITTEN: dict[str, Callable[[str], str]] = {
    "as JSON": json.dumps,
    "as Python": repr,
    "as Python in ASCII": ascii,
    "as bytes": lambda secret: repr(secret.encode()),
    "beside quotes": lambda secret: repr(f"""Invalid value "{secret}", it's wrong"""),
    "as bytes beside quotes": lambda secret: repr(f"""Invalid value "{secret}", it's wrong""".encode()),
    "in a path": quote,
    "in a form": quote_plus,
    "in an address": lambda secret: quote(secret, safe=""),
    "in a page": html.escape,
}


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(
    "secret",
    ["pass w\u00f6rd/9", 'it\'s-a-"secret"', "it's-a-secret", "a&b<c>d&e", "tab\tand\\more", "\u00fcn\u00ef-\u2713"],
)
def test_a_secret_is_hidden_however_it_is_written(secret: str, written: Callable[[str], str]) -> None:
    hide(secret)
    text = f"It failed: {written(secret)}."
    assert MASK in without_credentials(text), text


SPAWNS = """
from multiprocessing import get_context
from dispatcher.model.shown import KNOWN
from tests.unit.dispatch.fairlane.spawned_worker import SECRET, fail
if __name__ == "__main__":
    KNOWN.add([SECRET])
    child = get_context("spawn").Process(target=fail, args=(KNOWN,))
    child.start()
    child.join()
"""


def test_a_process_that_a_supervisor_starts_hides_the_same_secrets() -> None:
    """It gets settings that another process has read."""
    done = subprocess.run([sys.executable, "-c", SPAWNS], capture_output=True, text=True, check=True)
    assert f"ValueError: {MASK}" in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.parametrize("word", ["test", "redis", "fairlane", "1234", "abc"])
def test_an_ordinary_word_is_hidden_where_it_is_the_password_and_stays_elsewhere(word: str) -> None:
    settings = RedisSettings(url=f"redis://:{word}@h:1/0", password=SecretStr(word))
    assert settings.address.named() == f"redis://:{MASK}@h:1/0"
    assert Unreachable(f"The app {word} is gone.").cause == f"The app {word} is gone."


def test_addresses_and_tokens_of_a_users_data_stay_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"target": "https://u:p@x.example/?id=1", "login": "eyJhbGciOiJub25l.eyJhIjoxfQ.x", "at": [1, None, True]}
    Output(as_json=True).emit(data, lambda: "")
    assert json.loads(capsys.readouterr().out) == data
