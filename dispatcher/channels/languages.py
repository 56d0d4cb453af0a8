"""One spelling for the language tags of phones, browsers, Java and POSIX.

Sources: BCP 47, and CLDR's language aliases, likely subtags and parent locales.
"""

import re
from functools import lru_cache
from typing import NamedTuple

_OTHER_NAMES = """
alb:sq ara:ar ben:bn bos:bs bul:bg cat:ca ces:cs chi:zh cmn:zh cym:cy cze:cs dan:da deu:de dut:nl ell:el eng:en est:et
fas:fa fin:fi fra:fr fre:fr ger:de gre:el hbs:sr_latn heb:he hin:hi hrv:hr hun:hu ice:is in:id ind:id isl:is ita:it
iw:he ji:yi jpn:ja jw:jv kor:ko lav:lv lit:lt may:ms mo:ro mol:ro msa:ms nld:nl nno:nn no:nb nob:nb nor:nb per:fa
pol:pl por:pt ron:ro rum:ro rus:ru scc:sr scr:hr sh:sr_latn slk:sk slo:sk slv:sl spa:es sqi:sq srp:sr swa:sw swe:sv
tgl:fil tha:th tl:fil tur:tr ukr:uk urd:ur vie:vi wel:cy yid:yi zho:zh
"""
"""Old names, those of macrolanguages, and the common ones of three letters."""
_NAMES = dict(pair.split(":") for pair in _OTHER_NAMES.split())
_SCRIPTS = {"zh_tw": "hant", "zh_hk": "hant", "zh_mo": "hant", "zh_cn": "hans", "zh_sg": "hans", "zh_my": "hans"}
_SCRIPTS |= {"zh_cht": "hant", "zh_chs": "hans", "yue_cn": "hans"}
_USUAL_SCRIPTS = {"az": "latn", "bs": "latn", "pa": "guru", "sr": "cyrl", "uz": "latn", "yue": "hant", "zh": "hans"}
"""The script of a tag that names none, for languages that are written in several."""
_MODIFIERS = {"latin": "latn", "cyrillic": "cyrl"}
_READ_BY = {"nn": "nb", "yue": "zh"}
"""A language whose texts the speakers of another one read."""
_AMERICAN = "ar bo br bz cl co cr cu do ec gt hn mx ni pa pe pr py sv us uy ve"
_PARENTS = {f"es-{region}": "es-419" for region in _AMERICAN.split()}
"""By region, the tag whose texts are nearer to it than those of the language."""


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
    if name == "zh" and parts[:1] in (["yue"], ["cmn"]):
        name, *parts = parts
    language, *added = _NAMES.get(name, name).split("_")
    if not re.fullmatch(r"[a-z]{2,8}", language):
        return LanguageTag("")
    kept = [*re.split(r"\b\w\b", " ".join(parts))[0].split(), *added]  # a single letter begins an extension
    scripts = [part for part in kept if re.fullmatch(r"[a-z]{4}", part)]
    rest = tuple("gb" if part == "uk" else part for part in kept if part not in scripts)
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
    tags[-1:-1] = [_PARENTS[region] for region in tags[-2:-1] if region in _PARENTS]
    script = tag.script or _USUAL_SCRIPTS.get(tag.language, "")
    if tag.script:
        tags += [LanguageTag(tag.language, "", tag.rest[:1]).full, tag.language]
    elif script:
        tags.append(LanguageTag(tag.language, script).full)
    if tag.language in _READ_BY:
        tags += languages("-".join(filter(None, (_READ_BY[tag.language], script))))
    return tuple(dict.fromkeys(filter(None, tags)))
