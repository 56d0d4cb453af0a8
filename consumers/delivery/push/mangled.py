"""Credentials as environments mangle them: what is unambiguous is undone, all else is named for what it is."""

import ast
import base64
import binascii
import json
import re
from typing import Any

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----\s*", re.DOTALL)
_BREAKS = re.compile(r"(?:\\+[rn]|\s)+")
"""Line breaks in a key: real ones, white space in their place, and `\\n` written as two characters, once or twice."""
_ESCAPED = re.compile(r"\{(?:\\[rnt]|\s)*\\\"")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{40,}={0,2}")
_LINE = 64
_KEY_VERSIONS = {b"\x02\x01\x00": "PRIVATE KEY", b"\x02\x01\x01": "EC PRIVATE KEY"}
"""The version with which a key begins in DER, and its name in PEM."""
_PEELS = 4
"""How many wrappings are taken off: base64 of a quoted text of base64 has three."""
_KINDS: tuple[tuple[str, str], ...] = (
    (r"-----BEGIN ENCRYPTED PRIVATE KEY", "it is a key with a passphrase; store it without one"),
    (r"-----BEGIN RSA PRIVATE KEY", "it is an RSA key"),
    (r"-----BEGIN CERTIFICATE(?![\s\S]*PRIVATE KEY)", "it is a certificate without its private key"),
    (r"-----BEGIN PUBLIC KEY", "it is a public key; the private one is needed"),
    (r"-----BEGIN (?:EC )?PRIVATE KEY[\s\S]*-----END", "it is a private key"),
    (r"-----BEGIN(?![\s\S]*-----END)", "it is cut off: its last line, -----END …, is missing"),
    (r"-----BEGIN", "it is a PEM file of another kind, or damaged"),
    (r"\{[\s\S]*\"project_info\"", "it is google-services.json, which is for the app on the device"),
    (r"<\?xml|<!DOCTYPE plist|bplist", "it is a property list, which is for the app on the device"),
    (r"\{[\s\S]*\"(private_key|type)\"", "it is the JSON file of a service account"),
    (r"\{\s*[\"}]", "it is JSON with a mistake, or of another kind"),
    (r"\{", "it is JSON whose quotes are missing"),
    (r"\$\{?\w|\{\{", "it is a placeholder that nothing has filled in"),
    (r"(?:file:|\.{0,2}/)[^\n]*$|[^\n]*\.(?:json|p8|pem)$", "it is a path; write file:PATH as the reference"),
    (r"[A-Za-z0-9+/_=\s-]{40,}$", "it looks like base64, of something else or not whole"),
)
"""Words for a credential that cannot be used, by a pattern at its beginning."""


def restored(secret: bytes) -> bytes:
    """Return a credential as its issuer wrote it; unchanged if it is not known what has become of it."""
    try:
        text = secret.decode("utf-16" if secret[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        return secret
    for _ in range(_PEELS):
        peeled = _peeled(text.strip("\ufeff \t\r\n\0"))
        if peeled == text:
            break
        text = peeled
    return (_json(text) or _keys(text)).encode()


def kind_of(secret: bytes) -> str:
    """Return what a credential is that cannot be used, as a clause."""
    text = secret.decode(errors="replace").strip()
    if secret[:1] == b"\x30":
        return "it is binary, such as a .p12 file; convert it (openssl pkcs12 -in FILE -nodes)"
    return next((words for form, words in _KINDS if re.match(form, text)), "it is neither a PEM file nor JSON")


def _peeled(text: str) -> str:
    """Take one wrapping off: quotes, escapes of a text in JSON, base64."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`":
        return _unescaped(text) if text[0] == '"' else text[1:-1]
    if _ESCAPED.match(text):
        return _unescaped(f'"{text}"')
    joined = _BREAKS.sub("", text)
    return _from_base64(joined) or text if _BASE64.fullmatch(joined) else text


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return text[1:-1]


def _from_base64(text: str) -> str:
    """Return the text that this is the base64 of, or a key's PEM for the base64 of a key; empty for anything else."""
    try:
        text = text.translate({45: "+", 95: "/"}).rstrip("=")
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return ""
    version = next((name for mark, name in _KEY_VERSIONS.items() if data[:1] == b"\x30" and mark in data[:8]), None)
    if version is not None:
        return f"-----BEGIN {version}-----{base64.b64encode(data).decode()}-----END {version}-----"
    try:
        inner = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ""
    return inner if inner.isprintable() or "\n" in inner else ""


def _json(text: str) -> str:
    """Return a JSON object as JSON asks for it, with its key in lines; empty if this is none."""
    for written in (text, _BREAKS.sub(" ", text)) if text.startswith("{") else ():
        try:
            fields: Any = _loaded(written)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(fields, dict) and isinstance(key := fields.get("private_key"), str):
            return json.dumps({**fields, "private_key": _keys(key.strip("\"' "))})
        return json.dumps(fields) if written.startswith("{'") else written
    return ""


def _loaded(text: str) -> Any:
    """Return the fields of JSON, whose strings may have line breaks as they are, or of a dict as Python shows it."""
    return ast.literal_eval(text) if text.startswith("{'") else json.loads(text, strict=False)


def _keys(text: str) -> str:
    """Return a PEM text with the lines that PEM asks for; unchanged if it has no block that is whole."""
    return _PEM.sub(_block, text) if "-----BEGIN" in text else text


def _block(block: re.Match[str]) -> str:
    body = _BREAKS.sub("", block[2])
    if ":" in body:  # a header, as old encrypted keys have
        return block[0]
    lines = [body[start : start + _LINE] for start in range(0, len(body), _LINE)]
    return "\n".join([f"-----BEGIN {block[1]}-----", *lines, f"-----END {block[1]}-----", ""])
