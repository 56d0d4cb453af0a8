"""Small files as people have them. Each has this number of targets and of refused rows, or is refused as a whole."""

import gzip
import json
from typing import NamedTuple


class Sample(NamedTuple):
    """A file of the corpus."""

    name: str
    data: bytes
    accepted: int | None
    """None: the file is refused."""
    refused: int = 0


def _csv(what: str, text: str, accepted: int | None, refused: int = 0) -> Sample:
    return Sample(f"{what}.csv", text.encode(), accepted, refused)


def _jsonl(what: str, text: str, accepted: int | None, refused: int = 0) -> Sample:
    return Sample(f"{what}.jsonl", text.encode(), accepted, refused)


def _json(what: str, text: str, accepted: int | None, refused: int = 0) -> Sample:
    return Sample(f"{what}.json", text.encode(), accepted, refused)


_ROWS = "".join(f"t{number},name {number},Ulm\n" for number in range(40))
_PEOPLE = f"token,name,city\n{_ROWS}"
_LINES = "".join(f'"Ann\nLee {number}",t{number},"a ""b""\r\nc"\n' for number in range(30))

CORPUS = [
    _csv("plain", _PEOPLE, 40),
    _csv("no line end at the end", "token,name\na,Ann\nb,Bob", 2),
    _csv("carriage returns and line feeds", "token,name\r\na,Ann\r\nb,Bob\r\n", 2),
    _csv("carriage returns", "token,name\ra,Ann\rb,Bob\r", 2),
    _csv("mixed line ends", "token,name\r\na,Ann\nb,Bob\rc,Carl\n", 3),
    _csv("byte order mark", "\ufefftoken,name\na,Ann\n", 1),
    _csv("byte order mark and quotes", '\ufeff"token","name"\n"a","Ann"\n', 1),
    _csv("doubled quotes", 'token,name\na,"Ann ""Annie"" Lee"\nb,"Lee, ""Bob"""\n', 2),
    _csv("line breaks in quotes", 'token,name,city\na,"Ann\nLee",Ulm\nb,Bob,Bonn\n', 2),
    _csv("many line breaks in quotes", f"name,token,city\n{_LINES}", 30),
    _csv("carriage return in quotes", 'token,name\na,"Ann\rLee"\nb,Bob\n', 2),
    _csv("line break in a quoted header", 'token,"first\nname"\na,Ann\nb,Bob\n', 2),
    _csv("empty lines in quotes", 'token,name\na,"\n\n\n"\nb,"\n\n"\n', 2),
    _csv("quotes that look like rows", 'token,name\na,"\nb,c\nd,""e""\n"\nf,g\n', 2),
    _csv("a quote in a cell", 'token,name\na,5" pipe\nb,Bob "B" Lee\n', 2),
    _csv("a cell behind its quotes", 'token,name\na,"Ann" Lee\nb,Bob\n', 1, 1),
    _csv("a quote that is not closed", 'token,name\na,Ann\nb,"Bob\nc,Carl\nd,Dora\n', None),
    _csv("a quote that is not closed at the end", 'token,name\na,Ann\nb,"Bob', 1, 1),
    _csv("a long cell of many lines", 'token,name\na,"' + "x\n" * 1_500 + '"\nb,Bob\n', None),
    _csv("ragged rows", "token,name,city\na,Lee, Ann,Ulm\nb,Bob\nc,Carl,Jena\n", 1, 2),
    _csv("a cell too many", "token,name\na,Ann,\nb,Bob\n", 1, 1),
    _csv("empty cells", "token,name,city\na,,Ulm\nb,Bob,\nc,,\n", 3),
    _csv("empty quoted cells", 'token,name\na,""\nb,"Bob"\n', 2),
    _csv("empty targets", 'token,name\n,Ann\n"",Bob\n  ,Carl\nd,Dora\n', 1, 3),
    _csv("blank lines", "token,name\n\na,Ann\n\n\nb,Bob\n\n", 2),
    _csv("a line of blanks", "token,name\na,Ann\n   \nb,Bob\n", 2, 1),
    _csv("spaces behind commas", "token, name, lang\na, Ann, de\nb,\tBob , fr \n", 2),
    _csv("spaces before quotes", 'token, name\na, "Lee, Ann"\nb, " Bob "\n', 2),
    _csv("spaces that do not break", "token,name\n\u00a0a\u00a0,\u00a0Ann\u3000\n", 1),
    _csv("semicolons", "token;name\na;Ann, B.\nb;Bob\n", 2),
    _csv("tabs", "name\ttoken\nAnn\ta\nBob\tb\n", 2),
    _csv("bars", "name|token\nAnn|a\n", 1),
    _csv("a first line that names the delimiter", "sep=;\r\ntoken;name\r\na;Ann\r\n", 1),
    _csv("an unusual delimiter", "sep=:\ntoken:name\na:Ann\nb:Bob\n", 2),
    _csv("trailing separators", "token;name;;\na;Ann;;\nb;Bob;;\n", 2),
    _csv("a value in a column without a name", "token;name;\na;Lee;Ann\nb;Bob;\n", 1, 1),
    _csv("the first column without a name", ",token,name\n0,a,Ann\n,b,Bob\n", 1, 1),
    _csv("one column", "token\na\nb\nb b\n", 2, 1),
    _csv("a header in capitals", "TOKEN,Name\na,Ann\n", 1),
    _csv("token and address", "address,token,name\nUlm,a,Ann\n", 1),
    _csv("two columns of a name", "token,name,name\na,Ann,Lee\n", None),
    _csv("no column of targets", "device,name\na,Ann\n", None),
    _csv("no header", "a,Ann\nb,Bob\n", None),
    _csv("only a header", "token,name\n", 0),
    _csv("nothing", "", 0),
    _csv("duplicates", "token,name\na,Ann\na,Bob\na,Ann\n", 3),
    _csv("numbers and dates", "token,a,b,c,d\nx,007,1e5,2026-01-31,true\ny,1.50,-0,NaN,null\n", 2),
    _csv("numbers as targets", "token,name\n0012,Ann\n1e5,Bob\n12345678901234567890,Carl\n", 3),
    _csv("texts that say null", "token,name\nnull,NULL\n\\N,\\N\nNone,None\nNA,NA\n", 4),
    _csv("backslashes", 'token,name\na,"C:\\"\nb,\\n\\"x\\"\nc,"\\""\n', 2, 1),
    _csv("signs at the beginning", "token,name\n#a,#Ann\n//b,=1+1\n@c,+Carl\n", 3),
    _csv("letters of all kinds", "token,name\na,Zoë\nb,日本 🎉\nc,\u202eabc\nd\u00e9,x\n", 4),
    _csv("control characters", "token,name\na\x07,Ann\nb,B\x07ob\nc,\x00\n", 2, 1),
    _csv("long cells", "token,name\na," + "x" * 3_000 + "\n" + "y" * 2_000 + ",Bob\nc,Carl\n", 1, 2),
    _csv("a very long line", "token,name\na," + "x" * 200_000 + "\nb,Bob\n", 1, 1),
    _csv("a column named variables", "token,variables,channel\na,Ann,null\nb,Bob,\n", 2),
    _csv("names with dots and backquotes", "token,a.b,`c`,d e\na,1,2,3\n", 1),
    Sample("latin.csv", "token,name\na,Ann\nb,José\nc,Zoë\n".encode("latin-1"), None),
    Sample("one damaged name.csv", _PEOPLE.encode() + b"x,Jos\xe9,Ulm\n", 40, 1),
    Sample("one damaged target.csv", _PEOPLE.encode() + b"\xff\xfe,Ann,Ulm\n", 40, 1),
    Sample("utf-16.csv", _PEOPLE.encode("utf-16"), None),
    Sample("utf-16 without a mark.csv", _PEOPLE.encode("utf-16-le"), None),
    Sample("binary.csv", bytes(range(256)) * 4, None),
    Sample("packed.csv.gz", gzip.compress(_PEOPLE.encode()), 40),
    Sample("packed without saying so.csv", gzip.compress(_PEOPLE.encode()), 40),
    Sample("packed twice in a row.csv.gz", gzip.compress(b"token,name\na,Ann\n") + gzip.compress(b"b,Bob\n"), 2),
    Sample("cut off.csv.gz", gzip.compress(_PEOPLE.encode())[:-9], None),
    Sample("not packed.csv.gz", b"token,name\na,Ann\n", 1),
    Sample("table.tsv", b"token\tname\na\tAnn\n", 1),
    Sample("list.txt", b"a\n\n  b  \nc c\nd,e\n", 3, 1),
    Sample("list of objects.txt", b'{"target": "a"}\n', None),
    Sample("people", _PEOPLE.encode(), 40),
    Sample("targets", b"a\nb\nc\n", 3),
    Sample("objects", b'{"token": "a", "n": 1}\n{"token": "b"}\n', 2),
    _jsonl("objects", '{"token": "a", "name": "Ann"}\n{"target": "b", "n": 1}\n\n"c"\n', 3),
    _jsonl("own variables", '{"target": "a", "variables": {"n": 1}, "app": "x"}\n', 1),
    _jsonl("no variables", '{"target": "a", "variables": null}\n{"target": "b", "variables": {}}\n', 2),
    _jsonl("variables of other kinds", '{"target": "a", "variables": [1]}\n{"target": "b", "variables": "x"}\n', 0, 2),
    _jsonl("values", '{"target": "a", "b": true, "f": 1.50, "i": 1, "n": null, "z": 1.0, "e": 1e3, "m": -0}\n', 1),
    _jsonl("kinds that change", '{"target": "a", "n": 1}\n{"target": "b", "n": "x"}\n{"target": "c", "n": [1]}\n', 3),
    _jsonl("nested", '{"target": "a", "o": {"p": [1, {"q": null}]}, "l": []}\n', 1),
    _jsonl("nested too deeply", '{"target": "a", "o": ' + "[" * 40 + "]" * 40 + '}\n"b"\n' + "[" * 9_000 + "\n", 1, 2),
    _jsonl("large numbers", '{"target": "a", "n": 18446744073709551615}\n{"target": "b", "n": 1e999}\n', 1, 1),
    _jsonl("bad lines", '"a"\n{broken\n[1]\n7\nnull\n{"name": 1}\n{"target": 5}\n{"target": null}\n', 1, 7),
    _jsonl("a trailing comma", '{"target": "a"},\n{"target": "b"}\n', 1, 1),
    _jsonl("texts of all kinds", '"\\u00e9a"\n{"target": "b", "n": "\\ud83c\\udf89 \\"x\\" \\n"}\n" c "\n""\n', 3, 1),
    _jsonl("half a character", '{"target": "a", "n": "\\ud83c"}\n"b"\n', 1, 1),
    _jsonl("keys that repeat", '{"target": "a", "n": 1, "n": 2}\n', 1),
    _jsonl("an empty key", '{"target": "a", "": 1}\n', 1),
    _jsonl("carriage returns", '"a"\r\n{"target": "b"}\r\n', 2),
    _json("array", json.dumps(["a", {"target": "b", "n": [1, "]"]}, {"token": "c", "name": "Ann"}]), 3),
    _json("array on lines", '\ufeff[\n  {\n    "target": "a"\n  },\n  "b"\n]\n\n', 2),
    _json("empty array", "[]", 0),
    _json("array that is not closed", '["a", "b"', None),
    _json("array with a bad value", '["a", 7, {"n": 1}, "", null]', 1, 4),
    _json("array with no number", '["a", {"target": "b", "n": NaN}]', None),
    _json("text behind the array", '["a"]\n["b"]', None),
    _json("lines", '"a"\n{"target": "b"}\n', 2),
    _json("one object on lines", '{\n"target": "a"\n}\n', 0, 3),
    Sample("packed.json.gz", gzip.compress(b'["a", {"target": "b"}]'), 2),
]
