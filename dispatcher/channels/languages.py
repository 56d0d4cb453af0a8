"""One spelling for the language tags of phones, browsers, Java and POSIX.

Sources: BCP 47, and CLDR's language aliases, likely subtags and parent locales.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_OTHER_NAMES = """
ara:ar ben:bn bul:bg cat:ca ces:cs chi:zh cmn:zh cze:cs dan:da deu:de dut:nl ell:el eng:en est:et fas:fa fin:fi fra:fr
fre:fr ger:de gre:el heb:he hin:hi hrv:hr hun:hu ice:is in:id ind:id isl:is ita:it iw:he ji:yi jpn:ja jw:jv kor:ko
lav:lv lit:lt may:ms mo:ro msa:ms nld:nl nno:nn no:nb nob:nb nor:nb per:fa pol:pl por:pt ron:ro rum:ro rus:ru sh:sr_latn
slk:sk slo:sk slv:sl spa:es srp:sr swe:sv tha:th tl:fil tur:tr ukr:uk urd:ur vie:vi yid:yi zho:zh
"""
"""Old names, those of macrolanguages, and the common ones of three letters."""
_NAMES = dict(pair.split(":") for pair in _OTHER_NAMES.split())
_SCRIPTS = {"zh_tw": "hant", "zh_hk": "hant", "zh_mo": "hant", "zh_cn": "hans", "zh_sg": "hans", "zh_my": "hans"}
_MODIFIERS = {"latin": "latn", "cyrillic": "cyrl"}
_LAST = {"nn": "nb", "yue": "zh-hant", "zh": "zh-hans"}
"""The language that is read by those of another one, without a script of its own."""


class LanguageTag(NamedTuple):
    """A tag in lower case, by its parts."""

    language: str
    """Empty: the text names no language."""
    script: str = ""
    rest: tuple[str, ...] = ()
    """Region and variants."""

    @property
    def full(self) -> str:
        """The whole tag."""
        return "-".join(filter(None, (self.language, self.script, *self.rest)))


@lru_cache(4_096)
def parse_tag(text: str) -> LanguageTag:
    """Read a tag such as `zh-Hant-TW`, `zh_TW_#Hant`, `sr_RS.UTF-8@latin`, or the first of `de-DE,de;q=0.9`."""
    tag, _, modifier = re.split(r"[,;]", text)[0].strip().lower().partition("@")
    name, *parts = re.split(r"[-_#]+", tag.partition(".")[0])
    language, *added = _NAMES.get(name, name).split("_")
    if not re.fullmatch(r"[a-z]{2,8}", language):
        return LanguageTag("")
    kept = [*added, *re.split(r"\b\w\b", " ".join(parts))[0].split()]  # a single letter begins an extension
    scripts = [part for part in kept if re.fullmatch(r"[a-z]{4}", part)]
    rest = tuple(part for part in kept if part not in scripts)
    script = "".join(scripts[:1]) or _MODIFIERS.get(modifier, "") or _SCRIPTS.get("_".join((language, *rest[:1])), "")
    return LanguageTag(language, script, rest)


def locale_key(tag: str) -> str:
    """Return the spelling of a locale's tag that the tags of targets are compared with."""
    return parse_tag(tag).full or tag.lower()


@lru_cache(4_096)
def languages(text: str) -> tuple[str, ...]:
    """Return the tags to look for, most special first: `zh-hant-tw`, `zh-hant`, `zh-tw`, `zh`."""
    tag = parse_tag(text)
    tags = [tag._replace(rest=tag.rest[:count]).full for count in range(len(tag.rest), -1, -1)]
    if tag.script:
        tags += [LanguageTag(tag.language, "", tag.rest[:1]).full, tag.language]
    return tuple(dict.fromkeys(filter(None, (*tags, "" if tag.script else _LAST.get(tag.language, "")))))
