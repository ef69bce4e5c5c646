"""What is found: its kind and its place, never its text."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect, bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args
from unicodedata import normalize

Kind = Literal[
    "private_key",
    "api_key",
    "token",
    "password",
    "iban",
    "card",
    "email",
    "national_id",
    "passport",
    "phone",
    "ip_address",
    "name",
    "address",
]
"""The kinds of personal data and secrets; of two that overlap the one listed first counts."""

KINDS: tuple[Kind, ...] = get_args(Kind)
BY_MODEL: frozenset[Kind] = frozenset(("name", "address"))
"""The kinds that no rule finds, only a model."""

UNLESS_SAID: frozenset[Kind] = frozenset(KINDS) - {"ip_address"}
"""The kinds that are looked for unless others are given: most addresses on networks are those of servers."""


@dataclass(frozen=True)
class Finding:
    """One item of personal data or one secret.

    Args:
        kind: What it is: one of `KINDS`, or the name of a pattern of one's own.
        start: Index of its first character in the text.
        end: Index behind its last character.
        country: ISO code of the country that issues it; empty where there is none.
    """

    kind: str
    start: int
    end: int
    country: str = ""

    def __len__(self) -> int:
        return self.end - self.start


def without_overlaps(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in order of their places; of those that overlap, the graver kind, then the longer one."""
    ranked = sorted(findings, key=lambda finding: (_rank(finding.kind), -len(finding), finding.start))
    taken: list[Finding] = []
    for finding in ranked:
        place = bisect(taken, finding.start, key=_start)
        is_behind = place == 0 or taken[place - 1].end <= finding.start
        is_before = place == len(taken) or finding.end <= taken[place].start
        if is_behind and is_before:
            taken.insert(place, finding)
    return taken


def _rank(kind: str) -> int:
    return KINDS.index(kind) if kind in KINDS else -1


def _start(finding: Finding) -> int:
    return finding.start


_SENTENCE_END = re.compile(r"[!?。](?!\w)|。|\.\s+(?=[^\W\d_][a-zа-яё\u00df-\u00ff])|\n\s*\n")
_IGNORED = {"\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e", "\u200f"}
_BEFORE = 60
"""Most characters between the start of a sentence and a place in it."""
_AFTER = 32
"""Most characters between a place and the end of its sentence."""


class Plain:
    """A text in plain form: NFKC, decimal digits as 0 to 9, any dash as `-`, any blank as a space, none invisible.

    Args:
        text: The original.

    Attributes:
        text: The plain form.
        folded: The plain form in lower case, of the same length.
    """

    def __init__(self, text: str) -> None:
        self._starts: list[int] | None = None
        self._length = len(text)
        if text.isascii():
            self.text = text
        else:
            parts = [_plain_form(character) for character in text]
            self.text = "".join(parts)
            self._starts = _starts_of(parts)
        self.folded = "".join(character.lower()[:1] for character in self.text)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original for a place in the plain form."""
        if self._starts is None:
            return start, end
        return self._index(start), self._index(end - 1) + 1

    def sentence_start(self, place: int) -> int:
        """Return where the sentence of a place starts, at most 60 characters before it."""
        first = max(0, place - _BEFORE)
        return max((match.end() for match in _SENTENCE_END.finditer(self.text, first, place)), default=first)

    def line_start(self, place: int) -> int:
        """Return where the line of a place starts, within its sentence; at its beginning, the line before."""
        first = self.sentence_start(place)
        line = self.text.rfind("\n", first, place) + 1
        return line if line > first and self.text[line:place].strip() else first

    def sentence_end(self, place: int) -> int:
        """Return where the sentence of a place ends, at most 32 characters behind it."""
        match = _SENTENCE_END.search(self.text, place, place + _AFTER)
        return match.start() if match else min(len(self.text), place + _AFTER)

    def _index(self, place: int) -> int:
        """Return the index of the original character from which the plain one at `place` comes."""
        starts = self._starts or []
        return bisect_right(starts, place) - 1


def _starts_of(parts: list[str]) -> list[int]:
    """Return where the plain form of each original character starts."""
    starts, place = [], 0
    for part in parts:
        starts.append(place)
        place += len(part)
    return starts


@lru_cache(maxsize=8192)
def _plain_form(character: str) -> str:
    if character in _IGNORED:
        return ""
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Pd" or character == "\N{MINUS SIGN}":
        return "-"
    if category == "Zs":
        return " "
    return unicodedata.normalize("NFKC", character)


PHONE = (
    "my number|his number|her number|your number|their number|mon numéro|son numéro|mi número|su número|"
    "meine nummer|seine nummer|ihre nummer|il mio numero|meu número|mijn nummer|mój numer|мой номер|его номер|"
    "её номер|ваш номер|我的号码|他的号码|她的号码|fijo|"
    "phone|telephone|tel|mobile|cell|cellphone|whatsapp|wechat|viber|sms|fax|hotline|landline|"
    "电话|手机|手机号|热线|座机|联系方式|致电|拨打|传真|微信|短信|電話|手機|"
    "телефон*|тел|моб|мобильн*|позвон*|номер телефона|факс|ватсап|вотсап|сотов*|"
    "telefon*|handy*|rufnummer*|mobil*|festnetz*|téléphon*|tél|portable|mobile|"
    "teléfono*|móvil*|celular*|telemóvel*|telefone*|cellular*|cell|recapito*|numero di telefono|"
    "携帯*|전화*|휴대폰*|핸드폰*|هاتف*|جوال*|موبايل|फ़ोन|फोन|मोबाइल|"
    "komórk*|telefonu|gsm|mobiel|telefoon*|sdt|điện thoại|số điện thoại"
)
REACH = (
    "call|calls|calling|ring|dial|dialling|reach|reached|text|contact|telegram|signal|ext|"
    "联系|聯絡|звон*|набер*|связ*|свяж*|anruf*|ruf|rufe*|rufst|ruft|anzurufen|erreich*|rückruf*|"
    "appel*|joindre|joignable|contact*|llam*|llám*|localiz*|marque|ligue*|ligar*|contato*|chiam*|連絡先|연락처|"
    "اتصل*|للاتصال|zadzwo*|dzwoń|cep|ara|arayın*|bel|bellen"
)
"""Words that mostly have other meanings, so that more is asked of the number behind them."""

CARD = (
    "card|cards|cardnumber|cc|visa|mastercard|amex|maestro|unionpay|discover|jcb|mir|credit|debit|pan|"
    "charged|charge|charges|payment|payments|paid|pay|billed|billing|支付|付款|扣款|刷卡|оплат*|списан*|спишем|платёж*|платеж*|"
    "abgebucht|abbuchung|bezahl*|zahlung*|débit*|paiement*|payé*|prélev*|cobr*|pago*|pagar|pagado|addebit*|pagament*|"
    "银行卡|信用卡|卡号|借记卡|储蓄卡|银联|карт*|кредитк*|kreditkarte*|kartennummer|karte|carte|cb|tarjeta*|"
    "cartão*|cartao*|carta|カード|카드|بطاقة|कार्ड|karta|karty|kart|kartı|creditcard"
)
_OTHER = (
    "order*|invoice*|tracking|track|shipment|parcel|package|reference|ref|ticket|case|isbn|issn|isbn-13|isbn-10|sku|"
    "part|model|serial|version|ver|build|commit|uuid|guid|transaction|batch|lot|article|item|product|ean|upc|gtin|"
    "barcode|doi|arxiv|patent|flight|zip|postcode|timestamp|unix|epoch|seed|port|page|room|hash|checksum|md5|sha*|"
    "bytes|imei|meid|duns|vat|receipt|booking|reservation|confirmation|coupon|voucher|claim|policy|docket|issue|"
    "bug|revision|rev|orcid|pmid|asin|imo|gps|lat|lon|coordinates|score|population|total|price|cost|id|"
    "contract|agreement|po|job|task|session|request|log|block|device|asset|row|column|figure|table|section|chapter|"
    "event|run|trace|span|node|cluster|pod|image|digest|nonce|offset|latency|checksum|parameters|tokens|steps|"
    "订单*|单号|编号|发票*|快递*|运单*|物流*|版本|型号|序列号|流水号|商品*|货号|条码|时间戳|邮编|案号|工单|批号|书号|"
    "合同*|协议*|会话*|任务*|编码*|代码|批次|期号|交易号|注文*|伝票*|追跡*|請求書*|品番|型番|郵便番号|주문*|송장*|운송장*|"
    "заказ*|счёт-фактур*|счет-фактур*|фактур*|накладн*|трек*|артикул*|верси*|серийн*|обращени*|заявк*|тикет*|штрихкод*|индекс*|парти*|посылк*|"
    "отправлени*|чек*|квитанци*|договор*|дел|дела|дело|бронировани*|лот*|"
    "запрос*|задач*|сесси*|код|кода|кодом|билет*|протокол*|запис*|"
    "bestell*|auftrag*|rechnung*|sendung*|artikel*|serien*|vorgang*|kundennummer|aktenzeichen|buchung*|"
    "paket*|losnummer|charge|version|vertrag*|beleg*|lieferschein*|anfrage*|aufgabe*|sitzung*|gerät*|zeile*|"
    "commande*|facture*|colis|suivi|référence*|dossier*|article*|série*|réservation*|contrat*|devis*|requête*|tâche*|code|bon|"
    "pedido*|factura*|seguimiento|referencia*|expediente*|artículo*|serie|versión|reserva*|envío*|contrato*|solicitud*|tarea*|código*|guía|"
    "fatura*|rastreamento|encomenda*|referência*|protocolo*|nota fiscal|artigo*|série|versão|"
    "ordine*|fattura*|spedizione|riferimento|pratica|articolo|prenotazione|"
    "zamówieni*|faktur*|przesyłk*|sipariş*|kargo*|takip*|factuur*|bestelling*|pakket*|طلب*|فاتورة*|شحنة*|ऑर्डर"
)
QUANTITY = re.compile(
    r"\s*(?:%|€|\$|£|¥|₽|₹|元|円|원|人|次|个|米|公里|euros?|eur|usd|d[oó]lares|dollars?|pesos|reais|"
    r"руб\w*|рубл\w*|человек|тысяч\w*|миллион\w*|habitants?|habitantes|personas|people|users|km|kg|mb|gb|bytes|"
    r"einwohner|millones|millions?|unidades|units|штук\w*|шт\b|год\w*|лет\b|years)"
)
"""What may follow a number that counts something."""


_LETTERS = "A-Za-z0-9_\u00b5-\u06ff\u0900-\u0dff\u1e00-\u1fff"
"""What a word consists of, in scripts that separate words by blanks."""

_NEAR = 6
"""Most characters between a label and what it is the label of."""
_NEAR_WINDOW = 40
"""Characters before a place in which a label is looked for."""
_NUMBER = re.compile(r"\d{3}")
"""Between a label and a number: the label is that of another number."""


@lru_cache(maxsize=512)
def _pattern_of(words: str) -> re.Pattern[str]:
    """Return the pattern of words separated by bars; a trailing `*` stands for any ending.

    Words of scripts written without blanks are found anywhere.
    """
    longest_first = sorted(set(normalize("NFKC", words).split("|")) - {""}, key=lambda word: (-len(word), word))
    return re.compile("|".join(map(_one_word, longest_first)))


def _one_word(word: str) -> str:
    body = re.escape(word.removesuffix("*"))
    if re.match(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", word):
        return body
    return rf"(?<![{_LETTERS}]){body}" + (rf"[{_LETTERS}]*" if word.endswith("*") else rf"(?![{_LETTERS}])")


def words(listed: str) -> frozenset[str]:
    """Return the words of a text that lists them with blanks between."""
    return frozenset(listed.split())


class Labels:
    """Where labels stand in a text; each set of words is searched for once.

    Args:
        plain: The text.
    """

    def __init__(self, plain: Plain) -> None:
        self._plain = plain
        self._places: dict[str, tuple[list[int], list[int]]] = {}

    def any(self, listed: str) -> bool:
        """Return whether one of the words stands anywhere in the text."""
        return bool(self._places_of(listed)[0])

    def names(self, listed: str, start: int, end: int) -> bool:
        """Return whether the nearest label before a number is one of the words, or one stands right behind it."""
        sentence, line = self._plain.sentence_start(start), self._plain.line_start(start)
        other_place = self._last(_OTHER, line, start)
        listed_place = self._last(listed, line, start)
        if listed_place >= 0 or other_place >= 0:
            return listed_place >= other_place
        return self._last(listed, sentence, start) >= 0 or self._first_behind(listed, end)

    def stands_at(self, listed: str, start: int) -> bool:
        """Return whether one of the words stands right before a number, with no other word between."""
        return self._last(listed, max(0, start - _NEAR_WINDOW), start) >= start - _NEAR

    def names_other(self, start: int, *listed: str) -> bool:
        """True if the nearest label before a number says that it is something else, such as an order's number."""
        line = self._plain.line_start(start)
        other = self._last(_OTHER, line, start)
        if other < 0 or _NUMBER.search(self._plain.text, other, start):
            return False
        return all(self._last(one, line, start) < other for one in listed)

    def _last(self, listed: str, first: int, last: int) -> int:
        """Return where the last of the words between two places ends; -1 if none is there."""
        starts, ends = self._places_of(listed)
        place = bisect_right(ends, last) - 1
        return ends[place] if place >= 0 and starts[place] >= first else -1

    def _first_behind(self, listed: str, end: int) -> bool:
        starts, ends = self._places_of(listed)
        place = bisect_left(starts, end)
        return place < len(starts) and ends[place] <= self._plain.sentence_end(end)

    def _places_of(self, listed: str) -> tuple[list[int], list[int]]:
        """Return where the words start, and where they end."""
        if listed not in self._places:
            spans = [match.span() for match in _pattern_of(listed).finditer(self._plain.folded)]
            self._places[listed] = [start for start, _ in spans], [end for _, end in spans]
        return self._places[listed]
