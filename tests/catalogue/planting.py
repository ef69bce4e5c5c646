"""Texts in six languages with personal data and secrets planted in them, and texts with none that look alike."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stdnum import luhn
from stdnum.de import idnr
from stdnum.fr import nir
from stdnum.iso7064 import mod_97_10


@dataclass(frozen=True)
class Planted:
    """A text and what is planted in it."""

    kind: str
    language: str
    text: str
    start: int
    end: int


Dice = random.Random

_FRAMES = {
    "en": {
        "email": ("You can write to {} about it.", "Her address is {}, she answers fast.", "Contact: {}"),
        "phone": (
            "Call him at {} after six.",
            "Phone: {}",
            "You can reach Anna on {}, she said.",
            "Her mobile is {}.",
        ),
        "card": ("The card on file is {}.", "It was charged to {} yesterday.", "Visa {}, valid until 11/29"),
        "iban": ("Please transfer it to {}.", "IBAN: {}", "The refund goes to account {} this week."),
        "national_id": ("His social security number is {}.", "SSN: {}", "SSN {} is on the form."),
        "passport": ("Her passport number is {}.", "Passport No. {}", "He travels with passport {}."),
        "secret": ("Use {} for now.", "The key is {} and it works.", "```\nexport KEY={}\n```", "token={}"),
        "password": ("The password is {}", "password: {}", 'Log in with the password "{}".'),
        "url": ("Connect with {} from the server.", "DATABASE_URL={}"),
    },
    "zh": {
        "email": ("您可以写信到{}询问。", "她的邮箱是{}，回复很快。", "邮箱：{}"),
        "phone": ("六点以后给他打电话{}。", "电话：{}", "安娜的手机号是{}，随时可以联系。", "联系方式:{}"),
        "card": ("登记的银行卡是{}。", "卡号：{}，有效期11/29", "款项已从信用卡{}扣除。"),
        "iban": ("请汇款至{}。", "IBAN：{}", "退款将汇入账户{}，本周到账。"),
        "national_id": ("他的身份证号是{}。", "身份证：{}", "公民身份号码{}已登记。"),
        "passport": ("她的护照号码是{}。", "护照：{}", "他持护照{}出境。"),
        "secret": ("暂时使用{}。", "密钥是{}，可以用。", "API密钥：{}"),
        "password": ("密码是{}", "密码：{}", "登录密码为{}，请保存。"),
        "url": ("从服务器连接{}即可。", "数据库地址：{}"),
    },
    "ru": {
        "email": ("Напишите на {} об этом.", "Её почта {}, она отвечает быстро.", "Почта: {}"),
        "phone": ("Позвоните ему по номеру {} после шести.", "Тел.: {}", "Анна на связи: {}.", "Её мобильный {}."),
        "card": ("Карта клиента: {}.", "Деньги списаны с карты {} вчера.", "Номер карты {}, до 11/29"),
        "iban": ("Переведите, пожалуйста, на {}.", "IBAN: {}", "Возврат придёт на счёт {} на этой неделе."),
        "national_id": ("Его СНИЛС {}.", "СНИЛС: {}", "СНИЛС клиента — {}, он в анкете."),
        "passport": ("Паспорт {}, выдан в Москве.", "Серия и номер паспорта: {}", "паспорт серии {}"),
        "secret": ("Пока используйте {}.", "Ключ: {}, он работает.", "Токен {}"),
        "password": ("Пароль: {}", "Ваш пароль — {}", "пароль {} не подошёл".replace("пароль ", "пароль: ")),
        "url": ("Подключайтесь через {} с сервера.", "Адрес базы: {}"),
    },
    "de": {
        "email": ("Schreiben Sie an {}, bitte.", "Ihre Adresse ist {}, sie antwortet schnell.", "E-Mail: {}"),
        "phone": ("Rufen Sie ihn unter {} an.", "Tel.: {}", "Anna ist unter {} erreichbar.", "Handy: {}"),
        "card": ("Die hinterlegte Karte ist {}.", "Kreditkarte: {}", "Abgebucht wurde von {} gestern."),
        "iban": ("Bitte überweisen Sie auf {}.", "IBAN: {}", "Die Erstattung geht auf das Konto {}."),
        "national_id": (
            "Seine Steuer-ID ist {}.",
            "Steueridentifikationsnummer: {}",
            "IdNr. {} steht im Bescheid.",
        ),
        "passport": ("Ihre Reisepassnummer ist {}.", "Reisepass: {}", "Sie reist mit dem Reisepass {}."),
        "secret": ("Nehmen Sie vorerst {}.", "Der Schlüssel ist {} und geht.", "API-Schlüssel: {}"),
        "password": ("Das Passwort ist {}", "Passwort: {}", "Kennwort: {}"),
        "url": ("Verbinden Sie sich über {} vom Server.", "Datenbank: {}"),
    },
    "fr": {
        "email": ("Écrivez à {} à ce sujet.", "Son adresse est {}, elle répond vite.", "Courriel : {}"),
        "phone": ("Appelez-le au {} après six heures.", "Tél. : {}", "Anna est joignable au {}.", "Portable : {}"),
        "card": ("La carte enregistrée est {}.", "Carte bancaire : {}", "Le débit a été fait sur {} hier."),
        "iban": ("Merci de virer sur {}.", "IBAN : {}", "Le remboursement ira sur le compte {}."),
        "national_id": ("Son numéro de sécurité sociale est {}.", "NIR : {}", "Le n° {} figure au dossier."),
        "passport": ("Son numéro de passeport est {}.", "Passeport : {}", "Elle voyage avec le passeport {}."),
        "secret": ("Utilisez {} pour l'instant.", "La clé est {} et elle marche.", "Clé API : {}"),
        "password": ("Le mot de passe est {}", "Mot de passe : {}", "mot de passe: {}"),
        "url": ("Connectez-vous avec {} depuis le serveur.", "Base : {}"),
    },
    "es": {
        "email": ("Escriba a {} sobre esto.", "Su correo es {}, responde rápido.", "Correo: {}"),
        "phone": ("Llámelo al {} después de las seis.", "Tel.: {}", "Ana está en el móvil {}.", "Teléfono {}"),
        "card": ("La tarjeta registrada es {}.", "Tarjeta: {}", "Se cobró a {} ayer."),
        "iban": ("Transfiera a {}, por favor.", "IBAN: {}", "La devolución irá a la cuenta {}."),
        "national_id": ("Su DNI es {}.", "DNI: {}", "El cliente {} firmó ayer."),
        "passport": ("Su número de pasaporte es {}.", "Pasaporte: {}", "Viaja con el pasaporte {}."),
        "secret": ("Use {} por ahora.", "La clave es {} y funciona.", "Clave API: {}"),
        "password": ("La contraseña es {}", "Contraseña: {}", "contraseña: {}"),
        "url": ("Conéctese con {} desde el servidor.", "Base: {}"),
    },
}
LANGUAGES = tuple(_FRAMES)

_NAMES = {
    "en": ("emma.clark", "j.o'neil", "tom_baker99", "kate-w"), "zh": ("li.na", "wangwei1988", "张伟", "chen_jie"),
    "ru": ("ivan.petrov", "olga_s", "иван", "kuznetsov-p"), "de": ("anna.müller", "k.schmidt", "jens_weber", "b-vogel"),
    "fr": ("zoe.lefevre", "jean-paul.r", "hélène.m", "c.dubois+pro"), "es": ("maria.lopez", "j.garcia", "iñaki", "pablo_r7"),
}  # fmt: skip
_HOSTS = (
    "gmail.com",
    "mail.ru",
    "qq.com",
    "web.de",
    "orange.fr",
    "correo.es",
    "acme-corp.co.uk",
    "почта.рф",
    "dept.uni.edu",
)


def email(dice: Dice, language: str) -> str:
    """Write an e-mail address."""
    name, host = dice.choice(_NAMES[language]), dice.choice(_HOSTS)
    if not name.isascii() or not host.isascii():
        return f"{name}@{host}"
    return dice.choice(
        [f"{name}@{host}", f"{name}@{host}", f"{name} [at] {host.replace('.', ' [dot] ')}", f"{name}＠{host}"]
    )


def _digits(dice: Dice, count: int) -> str:
    return "".join(dice.choice(string.digits) for _ in range(count))


def phone(dice: Dice, language: str) -> str:
    """Write a phone number, in a national or international form of the country."""
    match language:
        case "en":
            area, rest = dice.choice(["212", "415", "617", "303"]), f"{dice.randint(200, 999)}-{_digits(dice, 4)}"
            plain = rest.replace("-", "")
            forms = [
                f"({area}) {rest}",
                f"{area}-{rest}",
                f"+1 {area} {rest}",
                f"+1{area}{plain}",
                f"{area}.{rest.replace('-', '.')}",
            ]
            forms += [f"07911 {_digits(dice, 6)}", f"+44 20 7946 0{_digits(dice, 3)}", f"{area}{plain}"]
        case "zh":
            head, tail = f"13{_digits(dice, 1)}", _digits(dice, 8)
            forms = [
                f"{head}{tail}",
                f"{head} {tail[:4]} {tail[4:]}",
                f"{head}-{tail[:4]}-{tail[4:]}",
                f"+86 {head}{tail}",
            ]
            forms += [f"010-6{_digits(dice, 7)}", f"{head}{tail}".translate(_FULL)]
        case "ru":
            code, tail = dice.choice(["916", "903", "495", "921"]), _digits(dice, 7)
            split = f"{tail[:3]}-{tail[3:5]}-{tail[5:]}"
            forms = [
                f"8 ({code}) {split}",
                f"+7 {code} {split}",
                f"8{code}{tail}",
                f"+7{code}{tail}",
                f"8-{code}-{split}",
            ]
        case "de":
            tail = _digits(dice, 7)
            forms = [
                f"0171 {tail}",
                f"+49 171 {tail}",
                f"0171/{tail}",
                f"030 2{tail}",
                f"+49 (0)30 2{tail}",
                f"0171-{tail}",
            ]
        case "fr":
            pairs = [_digits(dice, 2) for _ in range(4)]
            forms = [
                f"06 {' '.join(pairs)}",
                f"06.{'.'.join(pairs)}",
                f"+33 6 {' '.join(pairs)}",
                f"06{''.join(pairs)}",
                f"01-4{pairs[0][1]}-{'-'.join(pairs[1:])}",
            ]
        case _:
            tail = f"{dice.randint(0, 99):02}{_digits(dice, 6)}"
            forms = [
                f"6{tail[:2]} {tail[2:5]} {tail[5:]}",
                f"+34 6{tail}",
                f"6{tail}",
                f"6{tail[:2]} {tail[2:4]} {tail[4:6]} {tail[6:]}",
            ]
    return dice.choice(forms)


_FULL = str.maketrans(string.digits, "０１２３４５６７８９")


def card(dice: Dice, language: str) -> str:
    """Write a card's number."""
    head, length = dice.choice(
        [("4", 16), ("5" + dice.choice("12345"), 16), ("37", 15), ("6011", 16), ("2201", 16), ("6225", 16)]
    )
    body = head + _digits(dice, length - len(head) - 1)
    number = body + luhn.calc_check_digit(body)
    if length == 15:
        return dice.choice([number, f"{number[:4]} {number[4:10]} {number[10:]}"])
    groups = [number[place : place + 4] for place in range(0, 16, 4)]
    return dice.choice(
        [number, " ".join(groups), "-".join(groups), " ".join(groups).translate(_FULL), "\u00a0".join(groups)]
    )


_BANKS = {
    "en": ("GB", "LOYD" + "0" * 14),
    "zh": ("DE", "0" * 18),
    "ru": ("LT", "0" * 16),
    "de": ("DE", "0" * 18),
    "fr": ("NL", "INGB" + "0" * 10),
    "es": ("AT", "0" * 16),
}


def iban(dice: Dice, language: str) -> str:
    """Write an account number."""
    country, form = _BANKS[language]
    bban = "".join(dice.choice(string.digits) if one == "0" else one for one in form)
    number = country + mod_97_10.calc_check_digits(bban + country) + bban
    grouped = " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    return dice.choice([number, grouped, grouped.replace(" ", "\u00a0")])


def national_id(dice: Dice, language: str) -> str:
    """Write an identity number of the country."""
    match language:
        case "en":
            digits = f"{dice.randint(100, 665)}{dice.randint(10, 99)}{dice.randint(1000, 9999)}"
            return dice.choice(
                [f"{digits[:3]}-{digits[3:5]}-{digits[5:]}", f"{digits[:3]} {digits[3:5]} {digits[5:]}"]
            )
        case "zh":
            body = f"110105{dice.randint(1950, 2005)}{dice.randint(1, 12):02}{dice.randint(1, 28):02}{_digits(dice, 3)}"
            weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
            return (
                body
                + "10X98765432"[sum(int(one) * weight for one, weight in zip(body, weights, strict=True)) % 11]
            )
        case "ru":
            body = f"{dice.randint(100, 999)}{_digits(dice, 6)}"
            check = sum(int(one) * (9 - place) for place, one in enumerate(body)) % 101 % 100
            number = f"{body[:3]}-{body[3:6]}-{body[6:]} {check:02}"
            return dice.choice([number, number.replace("-", "").replace(" ", "")])
        case "de":
            while True:
                body = str(dice.randint(1, 9)) + _digits(dice, 9)
                number = body + str(_idnr_check(body))
                if idnr.is_valid(number):
                    return dice.choice([number, f"{number[:2]} {number[2:5]} {number[5:8]} {number[8:]}"])
        case "fr":
            body = f"{dice.choice('12')}{dice.randint(40, 99)}{dice.randint(1, 12):02}{dice.randint(10, 19)}{_digits(dice, 3)}{_digits(dice, 3)}"
            number = body + nir.calc_check_digits(body)
            return dice.choice(
                [
                    number,
                    f"{number[0]} {number[1:3]} {number[3:5]} {number[5:7]} {number[7:10]} {number[10:13]} {number[13:]}",
                ]
            )
        case _:
            body = _digits(dice, 8)
            letter = "TRWAGMYFPDXBNJZSQVHLCKE"[int(body) % 23]
            return dice.choice([f"{body}{letter}", f"{body}-{letter}"])


def _idnr_check(body: str) -> int:
    product = 10
    for digit in map(int, body):
        total = (digit + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10


def passport(dice: Dice, language: str) -> str:
    """Write a passport's number."""
    match language:
        case "ru":
            return f"45{_digits(dice, 2)}" + dice.choice([" ", " № "]) + _digits(dice, 6)
        case "de":
            return dice.choice("CFGHJK") + _digits(dice, 8)
        case "fr":
            return f"{dice.randint(10, 29)}AB{_digits(dice, 5)}"
        case "es":
            return f"AB{_digits(dice, 6)}"
        case _:
            return dice.choice(["E", "G", "P"]) + _digits(dice, 8)


def _letters(dice: Dice, count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(dice.choice(alphabet) for _ in range(count))


_HEX = "0123456789abcdef"


def secret(dice: Dice, language: str) -> str:
    """Write a key or a token as a well-known provider does."""
    forms: list[Callable[[], str]] = [
        lambda: "sk-" + _letters(dice, 48), lambda: "sk-proj-" + _letters(dice, 60), lambda: "sk-ant-api03-" + _letters(dice, 80),
        lambda: "AKIA" + _letters(dice, 16, string.ascii_uppercase + "234567"), lambda: "ghp_" + _letters(dice, 36),
        lambda: "github_pat_" + _letters(dice, 22) + "_" + _letters(dice, 59), lambda: "glpat-" + _letters(dice, 20),
        lambda: "AIza" + _letters(dice, 35), lambda: "xoxb-" + _digits(dice, 12) + "-" + _digits(dice, 12) + "-" + _letters(dice, 24),
        lambda: "sk_live_" + _letters(dice, 24), lambda: "hf_" + _letters(dice, 34), lambda: "npm_" + _letters(dice, 36),
        lambda: "SG." + _letters(dice, 22) + "." + _letters(dice, 43), lambda: _digits(dice, 10) + ":" + _letters(dice, 35),
        lambda: "dop_v1_" + _letters(dice, 64, _HEX), lambda: "shpat_" + _letters(dice, 32, _HEX), lambda: _jwt(dice),
        lambda: "-----BEGIN RSA PRIVATE KEY-----\n" + _letters(dice, 64) + "\n" + _letters(dice, 40) + "\n-----END RSA PRIVATE KEY-----",
    ]  # fmt: skip
    return dice.choice(forms)()


def _jwt(dice: Dice) -> str:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": _digits(dice, 9), "iat": 1516239022})]
    encoded = [base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, _letters(dice, 43)])


def password(dice: Dice, language: str) -> str:
    """Write a password."""
    return (
        dice.choice(["Sommer", "Qwerty", "tr0ub", "Hello"])
        + dice.choice("!$#-_")
        + _digits(dice, 3)
        + _letters(dice, 4)
    )


def url(dice: Dice, language: str) -> str:
    """Write a URL with a password in it."""
    scheme, host = (
        dice.choice(["postgresql", "mysql", "redis", "amqp", "https", "mongodb+srv"]),
        dice.choice(["db.corp.io", "10.0.0.7:5432"]),
    )
    return f"{scheme}://{dice.choice(['app', 'admin', 'root'])}:{_letters(dice, 12)}@{host}/main"


MAKERS: dict[str, Callable[[Dice, str], str]] = {
    "email": email, "phone": phone, "card": card, "iban": iban, "national_id": national_id, "passport": passport,
    "secret": secret, "password": password, "url": url,
}  # fmt: skip


def planted(count: int, seed: int) -> Iterator[Planted]:
    """Give texts with one item each, of all kinds and languages in turn."""
    dice = Dice(seed)
    for number in range(count):
        language = LANGUAGES[number % len(LANGUAGES)]
        kind = list(MAKERS)[number // len(LANGUAGES) % len(MAKERS)]
        value = MAKERS[kind](dice, language)
        before, _, after = dice.choice(_FRAMES[language][kind]).partition("{}")
        lead = dice.choice(["", dice.choice(_CLEAN[language]).split("{")[0] + "\n"])
        yield Planted(
            kind, language, f"{lead}{before}{value}{after}", len(lead + before), len(lead + before + value)
        )


_CLEAN = {
    "en": (
        "The order {order} was placed on {date} and shipped at {time}.", "Version {version} fixes the bug in {version}.",
        "Tracking number: {digits12}.", "The book (ISBN {isbn}) costs {price} EUR.", "The meeting is on {date}, {time}-{time}.",
        "Run `pip install tool=={version}` and open http://{ip}:8080/docs.", "The request id is {uuid}.",
        "The commit {sha1} breaks the build {digits6}.", "sha256: {sha256}", "The town has {thousands} inhabitants and {digits4} houses.",
        "Set `x = {digits16}` and `timeout={digits4}`.", "The tower is {digits3}.{digits1} m high; built in {year}.",
        "Invoice {order}, due {date}, total {price} USD.", "The timestamp {epoch} is {isodate} {time}:00.",
        "At {coords} the river is widest.", "Ticket #{digits6} and case {digits10} were closed.", "Chapter {digits1}, pages {digits3}-{digits3}.",
        "The password must have at least {digits1}2 characters, digits and a symbol.", "Use os.environ['API_KEY'] or YOUR_API_KEY.",
        "The serial number is {serial}, model {model}.", "git clone git@github.com:org/repo.git && cd repo", "See RFC {digits4}, section {digits1}.{digits1}.",
        "token = get_token(user_id={digits10})", "Pi is 3.{digits15}.", "The score was {digits2}-{digits2} in {year}/{digits2}.",
        "Flight BA {digits4} leaves at {time} from gate {digits2}.", "SKU {model}-{digits6} is sold out; {thousands} units were sold.",
        "In {year} there were {thousands} visitors, up {digits2} %.", "CVE-{year}-{digits5} was fixed in {version}.", "MAC {mac}, IPv6 2001:db8::{digits4}",
    ),
    "zh": (
        "订单{order}于{isodate}提交，{time}发货。", "版本{version}修复了{version}中的问题。", "快递单号：{digits12}。", "该书（ISBN {isbn}）售价{price}元。",
        "会议定于{isodate} {time}-{time}。", "请求编号为{uuid}。", "提交{sha1}导致构建{digits6}失败。", "全市人口{thousands}人，面积{digits4}平方公里。",
        "时间戳{epoch}对应{isodate}。", "塔高{digits3}.{digits1}米，建于{year}年。", "发票号{digits10}，金额{price}元。", "服务器地址{ip}:8080。",
        "密码至少包含{digits1}个字符。", "型号{model}，序列号{serial}。", "物流单号SF{digits12}已签收。", "邮编100080，门牌{digits3}号。",
    ),
    "ru": (
        "Заказ № {order} оформлен {date} в {time}.", "В версии {version} исправлена ошибка.", "Трек-номер {digits14}.", "Книга (ISBN {isbn}) стоит {price} руб.",
        "Встреча {date}, {time}–{time}.", "Идентификатор запроса {uuid}.", "Коммит {sha1} сломал сборку {digits6}.", "В городе {thousands} жителей.",
        "Метка времени {epoch} — это {isodate}.", "Высота башни {digits3},{digits1} м, {year} год.", "Счёт-фактура {digits10} от {date}.", "Сервер {ip}:8080.",
        "Пароль должен содержать не менее {digits1} символов.", "Артикул {digits8}, модель {model}.", "Обращение {digits10} закрыто.", "Индекс 101000, дом {digits2}.",
    ),
    "de": (
        "Die Bestellung {order} ging am {date} um {time} ein.", "Version {version} behebt den Fehler.", "Sendungsnummer: {digits12}.", "Das Buch (ISBN {isbn}) kostet {price} Euro.",
        "Termin: {date}, {time} bis {time} Uhr.", "Die Anfrage {uuid} schlug fehl.", "Commit {sha1} bricht Build {digits6}.", "Die Stadt hat {thousands} Einwohner.",
        "Rechnung {digits10} vom {date} über {price} Euro.", "Der Turm ist {digits3},{digits1} m hoch, erbaut {year}.", "Server {ip}:8080.", "Artikelnummer {digits8}, Modell {model}.",
        "Das Passwort muss {digits1} Zeichen haben.", "Aktenzeichen {digits2} C {digits3}/{digits2}.", "Kundennummer {digits10}.", "Raum {digits3}, {digits2} Plätze.",
    ),
    "fr": (
        "La commande {order} a été passée le {date} à {time}.", "La version {version} corrige l'erreur.", "Numéro de suivi : {digits12}.", "Le livre (ISBN {isbn}) coûte {price} €.",
        "Réunion le {date}, {time}-{time}.", "Requête {uuid}.", "Le commit {sha1} casse le build {digits6}.", "La ville compte {thousands} habitants.",
        "Facture {digits10} du {date}.", "La tour mesure {digits3},{digits1} m, {year}.", "Serveur {ip}:8080.", "Référence {digits8}, modèle {model}.",
        "Le mot de passe doit avoir {digits1} caractères.", "Dossier n° {digits10}.", "Le vol AF {digits4} part à {time}.", "Chapitre {digits1}, pages {digits3}-{digits3}.",
    ),
    "es": (
        "El pedido {order} se hizo el {date} a las {time}.", "La versión {version} corrige el error.", "Número de seguimiento: {digits12}.", "El libro (ISBN {isbn}) cuesta {price} euros.",
        "Reunión el {date}, {time}-{time}.", "Solicitud {uuid}.", "El commit {sha1} rompe la compilación {digits6}.", "La ciudad tiene {thousands} habitantes.",
        "Factura {digits10} del {date}.", "La torre mide {digits3},{digits1} m, {year}.", "Servidor {ip}:8080.", "Referencia {digits8}, modelo {model}.",
        "La contraseña debe tener {digits1} caracteres.", "Expediente {digits10}.", "El vuelo IB {digits4} sale a las {time}.", "Capítulo {digits1}, páginas {digits3}-{digits3}.",
    ),
}  # fmt: skip


def _blanks(dice: Dice) -> dict[str, str]:
    """Draw a value for every blank of the clean texts."""
    hexes = _letters(dice, 64, _HEX)
    day, month, year = dice.randint(1, 28), dice.randint(1, 12), dice.randint(1950, 2029)
    sep = dice.choice("./-")
    isbn = f"978-{_digits(dice, 1)}-{_digits(dice, 2)}-{_digits(dice, 6)}-{_digits(dice, 1)}"
    blanks = {f"digits{count}": _digits(dice, count) for count in range(1, 17)}
    return blanks | {
        "order": dice.choice([_digits(dice, 10), _digits(dice, 12), _digits(dice, 16), f"{year}-{_digits(dice, 7)}", f"{_digits(dice, 3)}-{_digits(dice, 7)}-{_digits(dice, 7)}"]),
        "date": f"{day:02}{sep}{month:02}{sep}{year}", "isodate": f"{year}-{month:02}-{day:02}", "year": str(year),
        "time": f"{dice.randint(0, 23):02}:{dice.randint(0, 59):02}", "version": ".".join(str(dice.randint(0, 99)) for _ in range(dice.choice([2, 3, 4]))),
        "isbn": dice.choice([isbn, isbn.replace("-", ""), f"0-{_digits(dice, 3)}-{_digits(dice, 5)}-{_digits(dice, 1)}"]),
        "price": dice.choice([f"{dice.randint(1, 999)}.{_digits(dice, 2)}", f"{dice.randint(1, 99)} {_digits(dice, 3)},{_digits(dice, 2)}", f"{dice.randint(1, 99)},{_digits(dice, 3)}.00"]),
        "ip": ".".join(str(dice.randint(1, 254)) for _ in range(4)), "uuid": f"{hexes[:8]}-{hexes[8:12]}-4{hexes[13:16]}-a{hexes[17:20]}-{hexes[20:32]}",
        "sha1": hexes[:40], "sha256": hexes, "mac": ":".join(hexes[place : place + 2] for place in range(0, 12, 2)),
        "thousands": dice.choice([f"{dice.randint(1, 99)} {_digits(dice, 3)} {_digits(dice, 3)}", f"{dice.randint(1, 99)},{_digits(dice, 3)},{_digits(dice, 3)}"]),
        "epoch": str(dice.randint(10**9, 2 * 10**9) * dice.choice([1, 1000])), "coords": f"{dice.uniform(-80, 80):.6f}, {dice.uniform(-170, 170):.6f}",
        "serial": _letters(dice, 12, string.ascii_uppercase + string.digits), "model": f"{_letters(dice, 2, string.ascii_uppercase)}-{_digits(dice, 4)}",
    }  # fmt: skip


def clean(count: int, seed: int) -> Iterator[str]:
    """Give texts without personal data: two sentences each, full of other numbers."""
    dice = Dice(seed)
    for number in range(count):
        frames = _CLEAN[LANGUAGES[number % len(LANGUAGES)]]
        yield " ".join(dice.choice(frames).format(**_blanks(dice)) for _ in range(2))
