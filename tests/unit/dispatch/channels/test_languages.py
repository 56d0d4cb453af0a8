"""Targets reach the texts of their language, whatever their phone, browser or database calls it."""

from typing import Any

import pytest

from dispatcher.channels.languages import languages, parse_tag
from dispatcher.channels.push_message import Templates
from dispatcher.channels.spec import EXAMPLE
from dispatcher.channels.specs import SPECS

TEXTS = ("he", "id", "yi", "nb", "zh", "zh-Hant", "pt-BR", "de", "sr", "sr-Latn", "fil", "en-GB", "ca-valencia")


def templates(*locales: str) -> Templates:
    message: dict[str, Any] = {"body": "default", "locales": {tag: {"body": tag} for tag in locales}}
    return SPECS["apns"].render(message, EXAMPLE).templates


def text(of: Templates, tag: object) -> str:
    return of.of({"lang": tag}).fill("", None).decode().partition('"body":"')[2].rstrip('"}')


@pytest.mark.parametrize(
    ("tag", "locale"),
    [
        *(("he", "he"), ("iw", "he"), ("iw-IL", "he"), ("iw_IL", "he"), ("heb", "he")),
        *(("in", "id"), ("in_ID", "id"), ("ind", "id"), ("ji", "yi"), ("yid", "yi")),
        *(("no", "nb"), ("no-NO", "nb"), ("nb_NO", "nb"), ("nn", "nb"), ("nor", "nb")),
        *(("zh-TW", "zh-Hant"), ("zh-HK", "zh-Hant"), ("zh_MO", "zh-Hant"), ("zh_TW_#Hant", "zh-Hant")),
        *(("zh__#Hant", "zh-Hant"), ("zh-Hant-HK", "zh-Hant"), ("zh_TW.Big5", "zh-Hant"), ("yue", "zh-Hant")),
        *(("zh", "zh"), ("zh-CN", "zh"), ("zh_CN_#Hans", "zh"), ("zh-Hans-SG", "zh"), ("zho", "zh"), ("cmn", "zh")),
        *(("pt-BR", "pt-BR"), ("pt_BR", "pt-BR"), ("por_BR", "pt-BR"), ("pt", "default"), ("pt-PT", "default")),
        *(("de_DE.UTF-8", "de"), ("de_AT@euro", "de"), ("de-DE,de;q=0.9", "de"), (" de ", "de"), ("DE", "de")),
        *(("ger", "de"), ("deu-CH", "de"), ("de-1996", "de"), ("de-Latn-DE", "de"), ("de-x-shop", "de")),
        *(("sr@latin", "sr-Latn"), ("sr_RS.UTF-8@latin", "sr-Latn"), ("sh", "sr-Latn"), ("sr-RS", "sr")),
        *(("tl", "fil"), ("fil-PH", "fil"), ("en_GB", "en-GB"), ("en-GB-u-ca-gregory", "en-GB"), ("en", "default")),
        *(("ca-valencia", "ca-valencia"), ("ca", "default")),
        *(("", "default"), ("C", "default"), ("*", "default"), ("german", "default"), ("x" * 2_000, "default")),
        *(("yue-Hant-HK", "zh-Hant"), ("zh-yue-HK", "zh-Hant"), ("yue-Hans-CN", "zh"), ("zh-cmn-Hans-CN", "zh")),
        *(("zh-CHT", "zh-Hant"), ("zh-CHS", "zh"), ("nn-Latn-NO", "nb"), ("sh-Cyrl", "sr"), ("sh_BA", "sr-Latn")),
        *(("en_UK", "en-GB"), ("tgl", "fil"), ("srp-Latn", "sr-Latn"), ("hbs", "sr-Latn"), ("scc", "sr")),
        *((None, "default"), (7, "default"), (["de"], "default"), ("\U0001f600", "default")),
    ],
)
def test_a_target_gets_the_texts_of_its_language(tag: object, locale: str) -> None:
    assert text(templates(*TEXTS), tag) == locale


@pytest.mark.parametrize(
    ("locales", "tag", "locale"),
    [
        (("iw",), "he", "iw"),
        (("no",), "nb-NO", "no"),
        (("zh_TW", "zh-CN"), "zh-HK", "zh_TW"),
        (("zh-TW", "zh-CN"), "zh", "zh-CN"),
        (("zh-TW", "zh-CN"), "zh-Hans", "zh-CN"),
        (("zh-TW", "zh-Hant", "zh-HK"), "zh-Hant", "zh-Hant"),
        (("zh-TW", "zh-Hant", "zh-HK"), "zh_HK_#Hant", "zh-HK"),
        (("zh-Hans",), "zh", "zh-Hans"),
        (("zh-Hans",), "zh-TW", "default"),
        (("zh",), "zh-TW", "zh"),
        (("nn", "nb"), "nn-NO", "nn"),
        (("DE_at",), "de-AT", "DE_at"),
        (("de-AT",), "de", "default"),
        (("sr-Latn", "sr-Cyrl"), "sr_RS", "sr-Cyrl"),
        (("uz-Cyrl", "uz-Latn"), "uz", "uz-Latn"),
        (("mo",), "ro", "mo"),
        (("es-ES", "es-419"), "es-MX", "es-419"),
        (("es", "es-419"), "es-ES", "es"),
        (("es-419", "es-MX"), "es_MX.UTF-8", "es-MX"),
    ],
)
def test_a_locale_may_have_any_name_of_its_language(locales: tuple[str, ...], tag: str, locale: str) -> None:
    assert text(templates(*locales), tag) == locale


def test_two_names_of_one_language_are_refused() -> None:
    for one, other in (("he", "iw"), ("zh-TW", "zh_Hant_TW"), ("de", "DE")):
        message = {"body": "x", "locales": {one: {}, other: {}}}
        [problem] = SPECS["fcm"].check_message(message)
        assert str(problem) == f"message.locales.{other}: is the same language as {one}; leave one out"


def test_tags_get_shorter() -> None:
    assert languages("zh_Hant-TW") == ("zh-hant-tw", "zh-hant", "zh-tw", "zh")
    assert languages("C") == ()
    assert parse_tag("zh_TW_#Hant") == ("zh", "hant", ("tw",))
