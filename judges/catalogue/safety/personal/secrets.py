"""Keys, tokens and passwords."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import groupby

from judges.catalogue.safety.personal.finding import Finding, Plain
from judges.entry import own_tables

_WORDS = own_tables(__file__, "words.toml")
_CLASSES = {"<B>": "[A-Za-z0-9]", "<U>": "[A-Za-z0-9_-]", "<H>": "[0-9a-f]"}


@cache
def _keys() -> re.Pattern[str]:
    """Return what finds keys and tokens of well-known forms, as `keys.toml` has them."""
    forms = [form for kind in own_tables(__file__, "keys.toml")["keys"].values() for form in kind]
    pattern = re.sub("<[BUH]>", lambda match: _CLASSES[match[0]], "|".join(forms))
    return re.compile(rf"(?<![A-Za-z0-9_.$/+-])(?:{pattern})(?![A-Za-z0-9])")


_WEBHOOKS = re.compile(
    r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"
    r"|https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{10,}/[\w-]{30,}"
    r"|https://[\w.-]+\.webhook\.office\.com/webhookb2/[\w@/-]{30,}"
    r"|(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{30,}={0,2}|[?&]sig=[A-Za-z0-9%+/]{30,}"
)


_PRIVATE = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[\s\S]{0,20000}?-----END (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----"
    r"|[^\n]{0,200}(?:\n[A-Za-z0-9+/=]{40,}){0,200})"
    r"|PuTTY-User-Key-File-\d: [^\n]{0,100}"
)
_SEED_NAMES = (
    r"seed phrase|seed words|(?:recovery|backup|wallet|secret) (?:phrase|words)|mnemonic(?: phrase)?"
    r"|助记词|助記詞|сид[- ]фраза|мнемоническая фраза"
)
_SEED_PHRASE = re.compile(
    rf"(?:{_SEED_NAMES})"
    r"[\"'`*]{0,3}\s{0,3}(?:(?:\bis\b|是)?\s{0,2}[:：=|]|\bis\b|是|—)\s{0,3}[\"'`*]{0,3}"
    r"(?P<words>(?:(?:\d{1,2}[.)] ?)?[a-z]{3,8}[ ,|\n]{1,3}){11,24}(?:\d{1,2}[.)] ?)?[a-z]{3,8}\b"
    r"|(?:[\u4e00-\u9fff][ ,，、|\n]{1,3}){11,23}[\u4e00-\u9fff])",
    re.IGNORECASE,
)
"""Twelve to 25 English words, each of three to eight letters, or Chinese signs, which open a wallet."""

_SEED_RUN = re.compile(
    r"(?<![A-Za-z])(?:[A-Za-z]{3,8}(?:[\s\d,;:|.)\]\"'`*_>•·#–-]|</?\w{1,6}>|word(?=\s?#?\d)){1,14}){11,}"
    r"[A-Za-z]{3,8}(?![A-Za-z])",
    re.IGNORECASE,
)
"""Words that may be such without a name: as a line, a list or a table."""

_SEED_HINT = re.compile(
    rf"{_SEED_NAMES}|wallet|\bseed\b|mnemonic|recover|metamask|ledger|trezor|钱包|кошел|сид|мнемон", re.IGNORECASE
)
_HINT_REACH = 80
_SEED_WORD = re.compile(r"\b(?<![</])(?!word\s?#?\d)[A-Za-z]+", re.IGNORECASE)
_MOST_AROUND = 2
"""Words of the list around a phrase, such as "phrase"."""

_SEED_LENGTHS = (12, 15, 18, 21, 24)
_JWT = re.compile(
    r"(?<![A-Za-z0-9_-])(eyJ[A-Za-z0-9_-]{8,})\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+){0,2}"
)
_URL = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>`]{0,100}"
    r":(?P<password>[^\s/\"'<>`]{1,200})@(?=[\w\[])"
)
_QUERY = re.compile(
    r"[?&](?:api_?key|key|token|access_token|auth|password|passwd|pwd|secret|client_secret)="
    r"(?P<value>[^\s&\"'<>`#]{8,300})",
    re.IGNORECASE,
)
_CURL = re.compile(r"\bcurl\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,60}:(?P<password>[^\s\"']{4,100})")
_HEADER = re.compile(
    r"\b(?P<scheme>bearer|basic|token|apikey)[ :]+(?P<value>[A-Za-z0-9_.~+/=-]{16,2000})", re.IGNORECASE
)

_VERBS = "is|are|was|ist|lautet|est|es|é|è|to|это|такой|такая|jest|olarak"
_SAYS = (
    r"(?:(?:[ \t]{1,3}[^\s:：]{1,20}){0,4}?[ \t]{0,3}[:：]\s{0,3}"  # password for the WLAN:
    r"|[\"'`*_]{0,3}\s{0,3}(?:[(（][^()（）\n]{1,30}[)）]\s{0,3})?"  # "password" (new)
    rf"(?:=>|:=|==?|[:：=]|\b(?:{_VERBS})\b|—|-(?=\s)|是|为|為|は|는|은|है|हैं)"
    r"[ \t]{0,3}\n?[ \t]{0,3}(?:[:：]\s{0,3})?"
    r"|\s{1,3}(?=[\"'`「“‘«]))"  # the password "..."
    r"[\"'`「“‘«*]{0,3}"
)
"""What stands between a label and the secret it names."""

_WORD = r"(?<![A-Za-z0-9\u00c0-\u04ff])"
_PASSWORD = re.compile(rf"{_WORD}(?:{_WORDS['login']}){_SAYS}(?P<value>(?![\"'`<>])[!-~]{{6,128}})", re.IGNORECASE)
_KEY = re.compile(
    rf"{_WORD}(?:{_WORDS['key']}){_SAYS}(?P<value>[\w.~+/=:$@-]{{16,300}})", re.IGNORECASE | re.ASCII
)
_PLACEHOLDER = re.compile(
    r"^[\[{<%]|\$\{|\$\(|^\$[A-Z_]+$|\{\{|^\*+$|^x+$|^\.+$|xxxx|\*\*\*|\.\.\.|…|"
    r"your|example|placeholder|changeme|change_me|redacted|dummy|insert|"
    r"^(?:password|passwd|pass|pwd|secret|token|user|username|root|admin|test|none|null|true|false|string|str)\d{0,3}$|"
    r"^tiger$",  # of scott, in the manuals of databases
    re.IGNORECASE,
)
_SAMPLE = re.compile(r"EXAMPLE(?:KEY)?$|xxxxxx", re.IGNORECASE)
"""Keys of manuals."""

_PIN = re.compile(
    r"(?<![\w-])PIN(?:-?[Cc]ode)?\s{0,2}(?:[:：=]|is|lautet|ist|—)\s{0,2}(?P<value>\d{4})(?![\w.,:-]*\d)"
)
_CODE = re.compile(
    r"^[A-Za-z_][\w.]*[(\[]|::|->|^https?:|^/|\(\)|^--|"
    r"^(?:os|process|self|this|config|settings|env|request|req|input|getpass)\."
)
_LEAST_ENTROPY = 2.5
"""Bits a character that a secret has at least."""
_FEWEST_CHARACTERS = 16
"""Characters that it has at least."""


def secrets(plain: Plain) -> Iterator[Finding]:
    """Find private keys, keys and tokens of well-known forms, and those named as such.

    Placeholders (`YOUR_API_KEY`, `${TOKEN}`) and code that reads a secret are not found.
    """
    text = plain.text
    for match in _PRIVATE.finditer(text):
        yield Finding("private_key", match.start(), match.end())
    for match in _SEED_PHRASE.finditer(text):
        yield Finding("private_key", *match.span("words"))
    yield from _seed_phrases(text)
    for match in _keys().finditer(text):
        if _is_random(match.group(), 8) and not _SAMPLE.search(match.group()):
            yield Finding("api_key", match.start(), match.end())
    for match in _WEBHOOKS.finditer(text):
        yield Finding("api_key", match.start(), match.end())
    for match in _JWT.finditer(text):
        if _is_jose(match.group(1)):
            yield Finding("token", match.start(), match.end())
    yield from _in_urls(text)
    yield from _in_headers(text)
    yield from _named(text)


@cache
def _seed_places() -> dict[str, int]:
    return {word: place for place, word in enumerate(_WORDS["seed"].split())}


def _seed_phrases(text: str) -> Iterator[Finding]:
    """Find as many words of the list as open a wallet, hardly any twice, and not in its order.

    Their checksum is right, or they are all of a list, stand alone on lines or in quotes, or behind a word for it.
    """
    places = _seed_places()
    for run in _SEED_RUN.finditer(text):
        for known, group in groupby(
            _SEED_WORD.finditer(text, *run.span()), lambda word: word[0].lower() in places
        ):
            stretch = list(group) if known else []
            parts = [part for count in _SEED_LENGTHS[::-1] for part in (stretch[:count], stretch[-count:])]
            for part in parts:
                numbers = [places[word[0].lower()] for word in part]
                if (
                    len(part) not in _SEED_LENGTHS
                    or len(set(numbers)) < len(part) - 1
                    or numbers == sorted(numbers)
                ):
                    continue
                start, end = part[0].start(), part[-1].end()
                if not _has_checksum(numbers):
                    start, end = stretch[0].start(), stretch[-1].end()
                    if len(stretch) > len(part) + _MOST_AROUND or not _stands_out(text, start, end):
                        continue
                yield Finding("private_key", start, end)
                break


def _stands_out(text: str, start: int, end: int) -> bool:
    """Whether a part is a list, fills its lines or quotes, or a word of wallets stands before it."""
    edges = "\n\"'`"
    before, behind = text[:start].rstrip(" \t")[-1:], text[end:].lstrip(" \t")[:1]
    return (
        (before in edges and behind in edges)
        or not re.search("[A-Za-z] {1,3}[A-Za-z]", text[start:end])
        or bool(_SEED_HINT.search(text, max(0, start - _HINT_REACH), start))
    )


def _has_checksum(numbers: list[int]) -> bool:
    """Whether the last bits, one for each three words, are the first ones of the digest of the others."""
    checked = len(numbers) // 3
    whole = int("".join(f"{number:011b}" for number in numbers), 2)
    entropy = (whole >> checked).to_bytes(checked * 4, "big")
    return hashlib.sha256(entropy).digest()[0] >> (8 - checked) == whole & ((1 << checked) - 1)


def _in_urls(text: str) -> Iterator[Finding]:
    for match in _URL.finditer(text):
        if not _PLACEHOLDER.search(match["password"]):
            yield Finding("password", *match.span("password"))
    for match in _CURL.finditer(text):
        if not _PLACEHOLDER.search(match["password"]):
            yield Finding("password", *match.span("password"))
    for match in _QUERY.finditer(text):
        if _is_key(match["value"]):
            yield Finding("token", *match.span("value"))


def _in_headers(text: str) -> Iterator[Finding]:
    for match in _HEADER.finditer(text):
        value = match["value"]
        if match["scheme"].lower() != "basic" and _is_key(value):
            yield Finding("token", *match.span("value"))
        elif match["scheme"].lower() == "basic" and _is_basic(value):
            yield Finding("password", *match.span("value"))


def _named(text: str) -> Iterator[Finding]:
    for match in _PASSWORD.finditer(text):
        value = _trimmed(match["value"])
        if _is_password(value):
            yield Finding("password", match.start("value"), match.start("value") + len(value))
    for match in _PIN.finditer(text):
        yield Finding("password", *match.span("value"))
    for match in _KEY.finditer(text):
        value = _trimmed(match["value"])
        if _is_key(value) and text[match.end() : match.end() + 1] not in ("(", "["):
            yield Finding("api_key", match.start("value"), match.start("value") + len(value))


def _trimmed(value: str) -> str:
    """Return a value without what belongs to the sentence or the code around it."""
    return re.split(r"[\"'`<>]", value)[0].rstrip(".,;:?)]}*")


def _is_password(value: str) -> bool:
    """Return whether a value can be a password, rather than a word, a type or an expression."""
    if not 6 <= len(value) <= 128 or _PLACEHOLDER.search(value) or _CODE.search(value) or not value.isascii():  # noqa: PLR2004 - lengths of passwords
        return False
    if value.isdecimal():
        return len(set(value)) > 1
    kinds = [any(map(test, value)) for test in (str.isalpha, str.isdecimal, lambda one: one in "!@#$%^&*?~+=")]
    return sum(kinds) > 1


def _is_key(value: str) -> bool:
    """Return whether a value looks drawn at random, as keys are."""
    if len(value) < _FEWEST_CHARACTERS or _PLACEHOLDER.search(value) or _CODE.search(value):
        return False
    digits = sum(map(str.isdecimal, value))
    words = len(re.findall(r"[a-z]{4,}", value)) * 4
    return digits >= 2 and words < len(value) / 2 and _is_random(value, 8)  # noqa: PLR2004 - one digit is a version


def _is_random(value: str, fewest: int) -> bool:
    """Return whether a value has many different characters: enough of them, and none in most places."""
    counts = Counter(value)
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())
    return len(counts) >= fewest and entropy >= _LEAST_ENTROPY


def _is_jose(header: str) -> bool:
    """Return whether a part of a token is the header of one: base64 of a JSON object."""
    try:
        return isinstance(json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4))), dict)
    except ValueError:
        return False


def _is_basic(value: str) -> bool:
    """Return whether a value is base64 of a user and a password."""
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        return False
