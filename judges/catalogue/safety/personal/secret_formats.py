"""How providers write their keys and tokens: prefixes and lengths from their documentation."""

from __future__ import annotations

import re

_B = r"[A-Za-z0-9]"
_U = r"[A-Za-z0-9_-]"
_H = r"[0-9a-f]"

_KEYS = (
    # models and their platforms
    rf"sk-ant-{_U}{{20,}}", rf"sk-or-v1-{_H}{{32,}}", rf"sk-lf-{_H}{{8}}-{_U}{{20,}}",
    rf"sk-(?:proj|svcacct|admin|None)-{_U}{{20,}}", rf"sk-{_B}{{20,}}", rf"sess-{_B}{{40}}",
    rf"hf_{_B}{{30,}}", rf"api_org_{_B}{{30,}}", rf"gsk_{_B}{{40,}}", rf"xai-{_B}{{40,}}", rf"r8_{_B}{{30,}}",
    rf"pplx-{_B}{{32,}}", rf"nvapi-{_U}{{40,}}", rf"lsv2_(?:pt|sk)_{_H}{{32}}_{_H}{{8,}}", rf"ls__{_H}{{32}}",
    rf"pcsk_{_U}{{30,}}", rf"tvly-{_U}{{20,}}", rf"fw_{_B}{{20,}}", rf"tgp_v1_{_U}{{30,}}", rf"pa-{_U}{{40,}}",
    rf"jina_{_U}{{40,}}", rf"wandb_v1_{_U}{{40,}}",
    # code hosts and registries
    rf"gh[pousr]_{_B}{{30,}}", rf"github_pat_{_B}{{20,}}_{_B}{{40,}}",
    rf"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-{_U}{{20,}}",
    rf"GR1348941{_U}{{20}}", rf"npm_{_B}{{30,}}", rf"pypi-AgE{_U}{{40,}}", rf"rubygems_{_H}{{48}}",
    rf"cio{_B}{{32}}",
    rf"dckr_(?:pat|oat)_{_U}{{20,}}", rf"ATBB{_B}{{28,}}", rf"ATATT3{_U}{{50,}}=?{_H}*",
    rf"ATCTT3{_U}{{50,}}=?{_H}*",
    rf"sq[pua]_{_H}{{40}}", rf"snyk_{_U}{{20,}}", rf"CLOJARS_{_H}{{60}}",
    # clouds
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", rf"AIza{_U}{{35}}", rf"GOCSPX-{_U}{{28}}", r"LTAI[A-Za-z0-9]{12,24}",
    rf"AKID{_B}{{32,36}}", rf"AQVN{_U}{{35,38}}", r"YC[A-Za-z0-9_-]{38}", rf"y[0-3]_{_U}{{50,60}}",
    rf"do[oprt]_v1_{_H}{{64}}", rf"{_U}{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}", rf"HRKU-{_U}{{30,}}",
    rf"dapi{_H}{{32}}(?:-\d)?",
    rf"vercel_{_B}{{24,}}|vc[pkira]_{_B}{{24,}}", rf"nfp_{_B}{{36,}}", rf"sbp_{_H}{{40}}",
    rf"sb_secret_{_U}{{20,}}",
    rf"pscale_(?:tkn|pw|oauth)_{_U}{{32,}}", rf"fo1_{_U}{{43}}", rf"FlyV1 fm\d?_{_U}{{40,}}", rf"rnd_{_B}{{28,}}",
    rf"tfp_{_B}{{40,}}", rf"{_B}{{14}}\.atlasv1\.{_U}{{60,}}", rf"pul-{_H}{{40}}",
    rf"dp\.(?:pt|st|ct|sa|scim|audit)\.{_B}{{40,}}",
    rf"hv[sbr]\.{_U}{{24,}}", r"AGE-SECRET-KEY-1[A-Z0-9]{58}", rf"ops_eyJ{_U}{{100,}}",
    # payment and shops
    rf"[sr]k_(?:live|test)_{_B}{{16,}}", r"whsec_[A-Za-z0-9+/]{24,}=*", rf"rzp_(?:live|test)_{_B}{{14,}}",
    rf"shp(?:at|ca|pa|ss)_{_H}{{32}}", rf"sq0(?:atp|csp|idp)-{_U}{{22,}}", rf"EAAA[lE]{_U}{{58,}}",
    rf"access_token\$(?:production|sandbox)\${_B}{{16}}\${_H}{{32}}", rf"FLWSECK(?:_TEST)?-{_H}{{12,}}-?X?",
    rf"sk_{_H}{{40}}",
    # messages and mail
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}", rf"xapp-\d-[A-Z0-9]+-\d+-{_B}{{20,}}", r"\d{8,10}:[A-Za-z0-9_-]{35}",
    rf"[MNO]{_U}{{23,27}}\.{_U}{{6}}\.{_U}{{27,45}}", rf"SG\.{_U}{{22}}\.{_U}{{43}}", rf"(?:SK|AC){_H}{{32}}",
    rf"key-{_H}{{32}}",
    rf"{_H}{{32}}-us\d{{1,2}}", rf"xkeysib-{_H}{{64}}-{_B}{{16}}", rf"re_{_B}{{8}}_{_B}{{20,}}",
    rf"EAA[A-Z]{_B}{{60,}}",
    # tools
    rf"(?:ntn|secret)_{_B}{{43,}}", rf"lin_(?:api|oauth)_{_B}{{32,}}", rf"fig[du]_{_U}{{38,}}",
    rf"PMAK-{_H}{{24}}-{_H}{{34}}",
    rf"pat{_B}{{14}}\.{_H}{{64}}", rf"NRAK-[A-Z0-9]{{27}}|NR(?:II|AA|RA)-{_U}{{27,}}", rf"gl(?:sa|c)_{_U}{{32,}}",
    rf"sntr[yu]s_{_U}{{40,}}=*", rf"sntryu_{_H}{{64}}", rf"[sp]k\.eyJ{_U}{{50,}}\.{_U}{{20,}}",
    rf"CFPAT-{_U}{{43}}",
    rf"aio_{_B}{{28}}", rf"rdme_{_B}{{60,}}", rf"dd[pa]?api_{_B}{{30,}}", rf"ph[cx]_{_B}{{40,}}",
    rf"dnkey-{_U}{{20,}}",
    r"sl\.[A-Za-z0-9_-]{60,}", rf"secret-[a-z]+-{_B}{{30,}}", rf"apify_api_{_B}{{30,}}", rf"fal_{_U}{{30,}}",
    rf"ya29\.{_U}{{20,}}", rf"1//0{_U}{{30,}}", rf"AAAA{_U}{{7}}:{_U}{{140}}",
    rf"amzn\.mws\.{_H}{{8}}(?:-{_H}{{4}}){{3}}-{_H}{{12}}",
    rf"duffel_(?:live|test)_{_U}{{40,}}", rf"rpa_{_B}{{40,}}", rf"sgp_(?:local_|{_H}{{16}}_)?{_H}{{40}}",
    rf"SWMTKN-1-{_B}{{40,}}-{_B}{{20,}}",
)  # fmt: skip

KEYS = re.compile(rf"(?<![A-Za-z0-9_.$/+-])(?:{'|'.join(_KEYS)})(?![A-Za-z0-9])")
WEBHOOKS = re.compile(
    r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"
    r"|https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{10,}/[\w-]{30,}"
    r"|https://[\w.-]+\.webhook\.office\.com/webhookb2/[\w@/-]{30,}"
    r"|(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{30,}={0,2}|[?&]sig=[A-Za-z0-9%+/]{30,}"
)
LOGIN_WORDS = (
    "password|passwords|passwd|pwd|passcode|passphrase|密码|口令|密碼|пароль|пароля|паролем|passwort|kennwort|"
    "mot de passe|contraseña|clave|senha|palavra-passe|パスワード|비밀번호|كلمة المرور|كلمة السر|şifre|parola|"
    "hasło|wachtwoord|heslo|पासवर्ड|mật khẩu"
)
KEY_WORDS = (
    "api[ _-]?key|apikey|api[ _-]?token|secret[ _-]?key|access[ _-]?key(?:[ _-]?id)?|secret[ _-]?access[ _-]?key|"
    "client[ _-]?secret|(?:auth|access|refresh|bearer)[ _-]?token|(?:private|account|signing|encryption)[ _-]?key|"
    "secret|token|密钥|令牌|ключ api|api-ключ|секретный ключ|ключ|токен|api-schlüssel|schlüssel|zugangsschlüssel|"
    "clé api|clé|jeton|clave api|clave secreta|chave|chave de api|chiave|apiキー|トークン|シークレット|"
    "api 키|토큰|مفتاح|رمز"
)
