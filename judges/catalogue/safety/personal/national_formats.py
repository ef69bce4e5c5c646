"""Identity numbers by country: how they are written, what they are called, and which check they pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Format:
    """How a country writes an identity number.

    Args:
        country: ISO code of the country.
        pattern: Regular expression of the whole number, in plain form.
        labels: What it is called, separated by bars; a trailing `*` stands for any ending.
        check: Module of `stdnum` that validates it, or a function of `national_checks` after `own.`; empty where
            it has no check digits, so that it counts only with a label.
        alone: Regular expression of the form that counts without a label, because no other number is written like
            it; empty if there is none.
        kind: The kind of finding.
    """

    country: str
    pattern: str
    labels: str
    check: str = ""
    alone: str = ""
    kind: Literal["national_id", "passport"] = "national_id"


_ID = "id|identity*|national id|id number|ausweis*|personalausweis*|identificaci*|identidad|identité"
_TAX = "tax*|tin|steuer*|fiscal*|impôt*|налог*"

FORMATS: tuple[Format, ...] = (
    # North America
    Format("US", r"\d{3}[- ]?\d{2}[- ]?\d{4}", "ssn|social security*|социальн*|社会安全号*|社保号*|seguro social|"
           "sozialversicherung*|sécurité sociale", "us.ssn", r"\d{3}-\d{2}-\d{4}"),
    Format("US", r"9\d{2}[- ]?\d{2}[- ]?\d{4}", f"itin|{_TAX}", "us.itin", r"9\d{2}-[5-9]\d-\d{4}"),
    Format("CA", r"\d{3}[- ]?\d{3}[- ]?\d{3}", "sin|social insurance*|nas|assurance sociale", "ca.sin"),
    Format("MX", r"[A-Z]{4}\d{6}[HMX][A-Z]{5}[A-Z0-9]\d", "curp", "mx.curp", r".+"),
    Format("MX", r"[A-ZÑ&]{4}\d{6}[A-Z0-9]{3}", "rfc", "mx.rfc"),
    # Europe
    Format("GB", r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
           "ni|nino|national insurance*", "own.nino", r".+"),
    Format("GB", r"\d{3}[- ]?\d{3}[- ]?\d{4}", "nhs*", "gb.nhs"),
    Format("IE", r"\d{7}[A-W][A-IW]?", "pps|ppsn|personal public service*", "ie.pps"),
    Format("DE", r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
    "steuer*|idnr|tin|steueridentifikation*|steuer-id*|tax*|идентификац*",
           "de.idnr"),
    Format("DE", r"\d{2} ?\d{6} ?[A-Z] ?\d{3}", "sozialversicherung*|rentenversicherung*|sv-nummer|svnr|rvnr",
           "", ""),
    Format("AT", r"\d{4} ?\d{6}", "svnr|sozialversicherung*|sv-nummer|versicherungsnummer", "at.vnr"),
    Format("CH", r"756\.?\d{4}\.?\d{4}\.?\d{2}", "ahv*|avs|avs-nummer|ahv-nummer", "ch.ssn",
           r"756\.\d{4}\.\d{4}\.\d{2}"),
    Format("FR", r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}",
           "nir|sécurité sociale|sécu|insee|numéro de sécu*|social security*", "fr.nir", r".+"),
    Format("FR", r"[0-3]\d ?\d{2} ?\d{3} ?\d{3} ?\d{3}", "numéro fiscal|nif|fiscal*|spi|tax*", "fr.nif"),
    Format("ES", r"\d{8}[- ]?[A-Z]|\d{2}\.\d{3}\.\d{3}[- ]?[A-Z]", f"dni|nif|{_ID}", "es.dni", r".+"),
    Format("ES", r"[XYZ][- ]?\d{7}[- ]?[A-Z]", f"nie|{_ID}", "es.nie", r".+"),
    Format("ES", r"\d{2}[-/ ]?\d{8}[-/ ]?\d{2}", "nuss|naf|seguridad social", "own.nuss"),
    Format("IT", r"[A-Z]{6}[0-9LMNP-V]{2}[A-EHLMPRST][0-9LMNP-V]{2}[A-Z][0-9LMNP-V]{3}[A-Z]",
           "codice fiscale|cf|c.f.", "it.codicefiscale", r".+"),
    Format("PT", r"\d{3} ?\d{3} ?\d{3}", "nif|contribuinte|fiscal*", "pt.nif"),
    Format("PT", r"\d{8} ?\d ?[A-Z0-9]{2}\d", "cartão de cidadão|cc|cidadão|bi", "pt.cc",
    r"\d{8} \d [A-Z0-9]{2}\d"),
    Format("NL", r"\d{3}[. ]?\d{2,3}[. ]?\d{3}|\d{9}", "bsn|burgerservicenummer|sofinummer|sofi*", "nl.bsn"),
    Format("BE", r"\d{2}[. ]?\d{2}[. ]?\d{2}[- ]?\d{3}[. ]?\d{2}", "rijksregister*|nationaal nummer|niss|insz|"
           "registre national|numéro national|nrn", "be.nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"),
    Format("LU", r"\d{13}", "matricule|cns", ""),
    Format("PL", r"\d{11}", "pesel*", "pl.pesel"),
    Format("CZ", r"\d{6}/?\d{3,4}", "rodné číslo|rodného čísla|rč|rodne cislo", "cz.rc", r"\d{6}/\d{4}"),
    Format("RO", r"[1-8]\d{12}", "cnp", "ro.cnp"),
    Format("BG", r"\d{10}", "егн", "bg.egn"),
    Format("HR", r"\d{11}", "oib", "hr.oib"),
    Format("SI", r"\d{13}", "emšo|emso", "si.emso"),
    Format("GR", r"\d{11}", "amka|αμκα", "gr.amka"),
    Format("SE", r"(?:\d{2})?\d{6}[-+ ]?\d{4}", "personnummer*|personnr|pnr", "se.personnummer"),
    Format("NO", r"\d{6} ?\d{5}", "fødselsnummer*|personnummer*|fnr|fodselsnummer", "no.fodselsnummer"),
    Format("DK", r"\d{6}[- ]?\d{4}", "cpr*|personnummer*", "dk.cpr"),
    Format("FI", r"\d{6}[-+ABCDEFUVWXY]\d{3}[0-9A-Y]", "henkilötunnus*|hetu|personbeteckning*", "fi.hetu", r".+"),
    Format("IS", r"\d{6}-?\d{4}", "kennitala*", "is_.kennitala"),
    Format("EE", r"[1-8]\d{10}", "isikukood*", "ee.ik"),
    Format("LT", r"[1-8]\d{10}", "asmens kod*", "lt.asmens"),
    Format("LV", r"\d{6}-?\d{5}", "personas kod*", "lv.pvn"),
    Format("TR", r"[1-9]\d{10}", "kimlik*|tckn|t.c.|tc", "tr.tckimlik"),
    Format("RU", r"\d{3}[- ]?\d{3}[- ]?\d{3}[- ]?\d{2}", "снилс*|snils|пенсионн*|страхов*", "own.snils",
           r"\d{3}-\d{3}-\d{3}[- ]\d{2}"),
    Format("RU", r"\d{12}", "инн|налогоплательщик*|inn|идентификационн*", "ru.inn"),
    Format("RU", r"\d{2} ?\d{2} ?(?:№|No|номер|N)? ?\d{6}|\d{2} ?(?:№|No|номер|N)? ?\d{7}",
           "паспорт*|загранпаспорт*|серия|серии|passport*", "", "", "passport"),
    Format("RU", r"\d{16}|\d{4} \d{4} \d{4} \d{4}", "омс|полис*", ""),
    Format("UA", r"\d{10}", "рнокпп|іпн|ідентифікаційн*|инн|налогов*", "ua.rntrc"),
    Format("UA", r"\d{8}-\d{5}", "унзр|запис*", ""),
    Format("KZ", r"\d{6}[0-6]\d{5}", "иин|жсн|iin", "own.iin"),
    Format("BY", r"\d{7}[ABCKEMH]\d{3}(?:PB|BA|BI)\d", "личный номер|идентификационн*", "", ""),
    # Asia
    Format("CN", r"[1-9]\d{5} ?(?:18|19|20)\d{2} ?(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]) ?\d{3}[\dXx]",
           "身份证*|公民身份*|身份號碼|id card|identity*|удостоверен*", "own.chinese", r".+"),
    Format("TW", r"[A-Z][12]\d{8}", "身分證*|身份证*|統一編號|id|national id", "own.taiwan", r".+"),
    Format("HK", r"[A-Z]{1,2}\d{6} ?\(?[0-9A]\)?", "hkid*|身份證*|身份证*|identity card", "own.hong_kong",
           r"[A-Z]{1,2}\d{6}\([0-9A]\)"),
    Format("JP", r"\d{4}[- ]?\d{4}[- ]?\d{4}", "マイナンバー*|個人番号*|my number|mynumber", "jp.in_"),
    Format("KR", r"\d{6}-?[1-8]\d{6}", "주민등록번호*|주민번호*|외국인등록번호*|rrn|resident registration*",
           "own.korean", r"\d{6}-[1-8]\d{6}"),
    Format("IN", r"[2-9]\d{3}[- ]?\d{4}[- ]?\d{4}", "aadhaar*|aadhar*|uidai|uid|आधार*", "in_.aadhaar"),
    Format("IN", r"[A-Z]{3}[ABCFGHJLPT][A-Z]\d{4}[A-Z]", "pan|पैन|permanent account*", "in_.pan", r".{3}P.+"),
    Format("ID", r"\d{16}", "nik|ktp|nomor induk*", "id.nik"),
    Format("MY", r"\d{6}-?\d{2}-?\d{4}", "mykad|nric|kad pengenalan|ic", "my.nric", r"\d{6}-\d{2}-\d{4}"),
    Format("SG", r"[STFGM]\d{7}[A-Z]", "nric|fin|identity*", "own.singapore", r".+"),
    Format("TH", r"\d-?\d{4}-?\d{5}-?\d{2}-?\d", "บัตรประชาชน|เลขประจำตัว*|national id|id", "th.pin",
           r"\d-\d{4}-\d{5}-\d{2}-\d"),
    Format("VN", r"\d{12}", "cccd|căn cước*|cmnd|định danh*", ""),
    Format("PK", r"\d{5}-?\d{7}-?\d", "cnic|nadra|شناختی", "pk.cnic", r"\d{5}-\d{7}-\d"),
    Format("IL", r"\d{9}", "תעודת זהות|ת.ז.|teudat zehut|מספר זהות", "il.idnr"),
    Format("AE", r"784-?\d{4}-?\d{7}-?\d", "emirates id|هوية*|الهوية", "", r"784-\d{4}-\d{7}-\d"),
    Format("SA", r"[12]\d{9}", "هوية*|الهوية*|إقامة*|الإقامة*|iqama", "luhn"),
    Format("EG", r"[23]\d{13}", "الرقم القومي|رقم قومي|القومي|بطاقة*", ""),
    # Oceania, Africa, South America
    Format("AU", r"\d{3} ?\d{3} ?\d{3}", "tfn|tax file*", "au.tfn"),
    Format("NZ", r"\d{2,3}[- ]?\d{3}[- ]?\d{3}", "ird*", "nz.ird"),
    Format("ZA", r"\d{6} ?\d{4} ?\d{2} ?\d", "id number|south african id|identity*|id|rsa id", "za.idnr"),
    Format("BR", r"\d{3}\.?\d{3}\.?\d{3}-?\d{2}", "cpf*|cadastro de pessoa*", "br.cpf",
           r"\d{3}\.\d{3}\.\d{3}-\d{2}"),
    Format("AR", r"\d{1,2}\.?\d{3}\.?\d{3}", "dni|documento", "ar.dni"),
    Format("AR", r"\d{2}-?\d{8}-?\d", "cuit|cuil", "ar.cuit", r"\d{2}-\d{8}-\d"),
    Format("CL", r"\d{1,2}\.?\d{3}\.?\d{3}-?[\dkK]", "rut|rol único*", "cl.rut", r"\d{1,2}\.\d{3}\.\d{3}-[\dkK]"),
    Format("CL", r"\d{7,8}-[\dkK]", "run", "cl.rut"),  # an English word, too
    Format("CO", r"\d{1,2}\.\d{3}\.\d{3}|\d{1,3}(?:\.\d{3}){3}|\d{6,10}", "cédula|cedula|c.c.", ""),
    Format("PE", r"\d{8}", "dni", "", ""),
    Format("EC", r"\d{9}-?\d", "cédula|cedula|ci", "ec.ci"),
    Format("UY", r"\d\.?\d{3}\.?\d{3}-?\d", "cédula|cedula|ci|c.i.", "", r"\d\.\d{3}\.\d{3}-\d"),
    # everywhere
    Format("", r"(?:[A-Z]{1,3} ?)?\d{6,9}[A-Z]?|(?=(?:[A-Z]*\d){4})[A-Z0-9]{8,9}",
           "passport*|passeport*|reisepass*|pass-nr|passnummer|pasaporte*|passaporte*|passaporto|паспорт*|загранпаспорт*|"
           "护照*|護照*|パスポート*|旅券*|여권*|جواز*|पासपोर्ट|pasaport*|paszport*|paspoort*", "", "", "passport"),
    Format("", r"[A-Z]{1,2}\d{6,8}|\d{7,10}|(?=(?:[A-Z]*\d){3})[A-Z0-9]{9,12}|\d{2} ?\d{2} ?\d{6}|"
           r"[A-Z]{5}\d{6}[A-Z0-9]{5}",
           "driver's license*|drivers license*|driver license*|driving licence*|driving license*|führerschein*|"
           "permis de conduire|carnet de conducir|licencia de conducir|водительск*|驾驶证*|驾照*|駕照*|免許証*|"
           "ausweisnummer|personalausweis*|carte d'identité|carta d'identità|dowód osobist*|identity card", ""),
)  # fmt: skip
"""The country packs. A number that has a label and no check digits counts; one without a label needs both a form
of
its own and its check digits."""

COUNTRIES: frozenset[str] = frozenset(entry.country for entry in FORMATS) - {""}
