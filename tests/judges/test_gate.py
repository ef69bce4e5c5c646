"""The gate holds answers that are none before a model is asked, and spares short honest ones."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from judges import Helpfulness, Rubric, Verdict
from judges.catalogue.general.gate import classify_non_answer
from judges.testing import ScriptedModel
from tests.laws import for_every

QUESTION = "How many legs does a spider have?"
MARKS = ': . , ; ! ? - ... … 。 ： !!!! ??? *** --- () "" ✓ 👍 ★★★★★ → ✅✅ ¯\\_()_/¯ ='
SYMBOLS = [
    *MARKS.split(),
    *("```\n```", "\u200b:\u200b", "\u200b", "\u2060\ufeff", "\u202e.\u202c", "\u200f:\u200e", "\u0301\u0301"),
    *("\u3164", "\u2800", "\U000e0041"),
]
OPENINGS = """
Solution | Solution: | solution. | **Solution:** | # Solution | Thought process: | THOUGHT PROCESS
Let me think... | Let's solve this problem step by step. | Let’s solve this problem step by step
Let's think step by step. | Thought process: Let's think step by step. | Question: | The answer: | Explanation
Reasoning: | Step 1: | The answer is: | Final answer: | Here is the solution: | Answer:
<think></think> | \\boxed{} | Assistant: | Result: | Analysis…
To solve this problem, we need to | Sure, here's the answer: | Thinking... | Step by step
解 | 解： | 解答 | 答案： | 让我们一步一步来解决这个问题。 | 思考过程： | 首先： | 解题思路 | 分析：
かいせつ | 解説： | 回答 | 答え： | 思考プロセス： | ステップバイステップで考えましょう。
Решение | Решение: | Ответ: | Ход мыслей: | Давайте решим эту задачу шаг за шагом. | Шаг 1:
Respuesta | Respuesta: | Solución: | Resolvamos este problema paso a paso. | Proceso de pensamiento:
Lösung: | Antwort | Gedankengang: | Lösen wir dieses Problem Schritt für Schritt. | Schritt 1:
Réponse : | Solution : | Processus de réflexion : | Résolvons ce problème étape par étape. | Étape 1 :
풀이: | 정답: | Resposta: | Soluzione: | Ⓢⓞⓛⓤⓣⓘⓞⓝ | 𝐒𝐨𝐥𝐮𝐭𝐢𝐨𝐧: | Ｓｏｌｕｔｉｏｎ | T h o u g h t  p r o c e s s :
"""
OPENERS = [
    *OPENINGS.strip().replace("\n", " | ").split(" | "),
    *(
        "So\u200blu\u200cti\u200don",
        "S\u0301o\u0308lution:",
        "\u202eSolution\u202c",
        "\u200fThought process:\u200f",
    ),
    *("Thought\u00a0process\uff1a", "\u3164Solution\u3164", "Solution " * 128, "Thought process:\n\nSolution:\n"),
]
ECHOES = [
    QUESTION,
    QUESTION.upper(),
    QUESTION.removesuffix("?"),
    f"{QUESTION} {QUESTION}",
    f"Question: {QUESTION}",
    f"> {QUESTION}",
    f"Thought process: {QUESTION}",
    f"{QUESTION}\n\nSolution:",
    f'"{QUESTION}"',
    QUESTION.replace(" ", "\u200b \u00a0"),
    "\uff28ow many legs does a spider have\uff1f",
]
KEYS = SYMBOLS + OPENERS + ECHOES

HONEST = """
Six times seven? | 42 | 42. | Forty-two | 4²·3-6 | XLII | ４２ | ٤٢ | ४२ | 四十二 | -42 | 0 | 7 | 1. | ½ | ①
Is earth round? | Yes. | Yes | yes! | No | no. | Y | N | True | False | Sure | OK | Of course! | Maybe | **Yes**
Что из этого верно? | да | Да. | нет | Нет! | Конечно | ок | А | Б | первое | оба
这对吗？ | 是 | 是的。 | 对 | 不是 | 不对 | 可以 | 好 | 没有 | 都对 | 第一个
正しいですか。 | はい | はい。 | いいえ | うん | 違います | ええ
¿Es correcto? | Sí | Sí. | No. | Claro | Tal vez | Ambos
Stimmt das? | Ja | Ja. | Nein | Doch | Vielleicht | Beides
Est-ce exact ? | Oui | Non | Si | Bien sûr | Peut-être | À peine
Which option is right: A, B, C or D? | B | b | (B) | B. | **A** | A | a) | D | C: | [C] | "D"
What is the capital of France? | Paris | Paris. | paris | **Paris** | Париж | 巴黎 | パリ | Pa\u00adris | París
What is the chemical formula of water? | H₂O | H2O | H₂O. | HOH | $H_2O$
What is the derivative of x³/3? | x² | x^2 | x**2 | $x^2$ | \\(x^2\\) | y' = x²
What does it cost? | €5 | 5 € | $5 | £4.99 | ￥500 | 5元 | free | 0.05 BTC | CHF 5.–
What is the ratio of circumference to diameter? | π | Pi | 3.14 | 3,14159… | ≈3.14 | 22/7
What is the limit of 1/x for x to 0 from above? | ∞ | +∞ | infinity | Infinity.
Which x solve x² = -1 in the reals? | ∅ | none | None | {} leer
Which character ends the first line of a Python def? | : | ":" | `:` | a colon | colon
Which operator compares for equality in C? | == | `==` | '=='
What does print([]) write? | [] | `[]` | "[]" | ()
Which emoji stands for thanks? | 🙏 | 🙏🙏 | 👍
Is it done? Reply with ✓ or ✗ alone. | ✓ | ✗ | "✓"
5 _ 3: which one fits, < or > ? | > | < | ">"
哪个标点表示疑问？ | ？ | 「？」
Какой символ обозначает рубль? | ₽
How do you say 'answer' in German? | Antwort | die Antwort!? auf Deutsch
What is the Spanish for 'answer'? | Respuesta | respuesta.
Как по-английски 'решение'? | solution | Solution | decision
“解”用英语怎么说？ | Solution | solve
What is a homogeneous mixture called? | Solution | A solution | solution.
What is the last section of a paper? | Conclusion | The conclusion | Conclusions
What do we get when we multiply? | Result | a product | The product.
Hello | Hello! | Hello | Hi | hey | Hello, how can I help?
Good morning! | Good morning! | good morning | Morning
你好 | 你好！ | 您好
おはようございます | おはようございます！
С Новым годом! | С Новым годом! | Спасибо!
Ready? | Ready. | Ready!
🤔 | 🙂 | ...
Who wrote Hamlet? | Shakespeare | W. Shakespeare | Shakespeare: he did
How do I list files? | ls | `ls` | dir | ls -la | $ ls
Which key quits vim? | :q | :q! | ZZ | Esc
What shape is it? | Δ | round | 圆 | ein O
Reply with the word 'Solution' and nothing else. | Solution | Solution.
When did it end? | 1945 | in 1945 | 1945-05-08 | 12:30 | ’45 | 3 BC
"""
ROWS = [[part.strip() for part in line.split(" | ")] for line in HONEST.strip().splitlines()]
PAIRS = [(question, answer) for question, *answers in ROWS for answer in answers]


def unasked(**settings: Any) -> Helpfulness:
    """Make a judge whose model has nothing to say, and raises if it is asked."""
    return Helpfulness(ScriptedModel([]), **settings)


def asked(verdict: Verdict) -> bool:
    """Tell whether a model was asked."""
    return verdict.usage.calls > 0


def judged(question: str | None, answer: str, **fields: Any) -> Verdict:
    """Judge with a model that finds everything excellent."""
    model = ScriptedModel([{"rationale": "r", "rating": 4, "feedback": ""}])
    return Helpfulness(model)(user_input=question, response=answer, **fields)


@for_every("key", KEYS)
async def test_a_master_key_is_rated_1_without_a_model(key: str) -> None:
    """A key costs nothing, sync and async, fails, and is distinguished from a model's verdict."""
    judge = unasked()
    for verdict in (judge(user_input=QUESTION, response=key), await judge.acall(question=QUESTION, answer=key)):
        assert (verdict.rating, verdict.score, verdict.passed, verdict.unscored) == (1, 0, False, None)
        assert (verdict.usage.calls, verdict.usage.tokens, verdict.model) == (0, 0, None)
        assert verdict.detail in {"gate: symbols", "gate: opener", "gate: echo"}
        assert verdict.feedback.startswith("Answer the question")


@for_every(
    "key, question",
    itertools.product(SYMBOLS + OPENERS, [None, "4 + 3?", "Объясни фотосинтез.", "什么是光合作用？"]),
)
def test_a_key_fits_no_other_question_either(key: str, question: str | None) -> None:
    """Openers and symbols are held for questions of any language, and without one."""
    assert not asked(judged(question, key))


@for_every(
    "question",
    [
        "¿Cuántas patas tiene una araña?",
        "Сколько ног у паука?",
        "蜘蛛有几条腿？",
        "クモの足は何本ですか。",
        "Combien de pattes a une araignée ?",
        "What is 2+2",
        "Write a poem about the sea and its colours.",
        "解释一下什么是光合作用",
        "Why?",
        "Ready?",
    ],
)
def test_the_question_is_no_answer(question: str) -> None:
    """A copy is held in any script, however it is punctuated, once or twice."""
    for copy in (question, f"{question} {question}", f"Solution: {question}"):
        assert judged(question, copy).detail == "gate: echo"


@for_every("question, answer", PAIRS)
def test_a_short_honest_answer_is_left_to_the_model(question: str, answer: str) -> None:
    """Numbers, yes and no, names, letters, formulas, and symbols that were asked for, pass."""
    verdict = judged(question, answer)
    assert (verdict.rating, asked(verdict)) == (4, True)


@for_every(
    "answer",
    [
        "Solution: git reset --soft HEAD~1",
        "Thought process: 2 and 2 make 4.",
        "Let's solve this problem step by step. A spider is an arachnid, so it has 8.",
        "解：8条",
        "Step 1: count them.",
        "How many legs does a spider have? Eight.",
        "How many legs does a spider have? The same as a scorpion.",
        "The answer is 8",
        "A solution",
        "Solutions vary",
        "Let's think step by step about spiders",
        "Result",
        "First",
        "Answering that takes a while.",
    ],
)
def test_an_opener_with_an_answer_passes(answer: str) -> None:
    """Whatever says more than openers and the question is the model's to judge."""
    assert asked(judged(QUESTION, answer))


@pytest.mark.parametrize("answer", [":", "Solution", "Respuesta:", "解", QUESTION])
def test_an_answer_that_is_the_reference_passes(answer: str) -> None:
    """What was expected is never held, whatever it looks like."""
    assert asked(judged(QUESTION, answer, reference=answer))
    assert not asked(judged(QUESTION, answer, reference="8"))


@pytest.mark.parametrize(
    ("question", "answer", "feedback"),
    [
        (QUESTION, ":", "Answer the question. There is no answer, only punctuation or symbols."),
        ("蜘蛛有几条腿？", "解：", "请回答问题。没有作答，只有开场的套话。"),
        ("Сколько ног у паука?", "Сколько ног у паука?", "Ответь на вопрос. Ответа нет: только повторён вопрос."),
    ],
)
def test_the_feedback_speaks_the_language_of_the_question(question: str, answer: str, feedback: str) -> None:
    """What the generator is told is in its user's language."""
    verdict = unasked()(user_input=question, response=answer)
    assert verdict.feedback == feedback
    assert verdict.rationale
    assert feedback.endswith(verdict.rationale)


@pytest.mark.parametrize(
    ("question", "answer", "held"),
    [
        ("What does print([]) write?", ":", "symbols"),
        ("What does print([]) write?", "[]", None),
        ("Which character ends a Python def line?", ":", None),
        ("Where is Graz?", "<br>\n&nbsp;</p>", "symbols"),
        ("Which tag breaks a line?", "<br>", None),
        ("Where is Graz?", "<br>In Styria.", None),
        ("2 + 2 = ?", "?", "symbols"),
        ("Done? ✓ or ✗?", "?", "symbols"),
        ("What is the German for 'answer'?", "Antwort", None),
        ("What is the German for 'answer'?", "Antwort:", "opener"),
        ("Solve x + 1 = 2.", "Solution", "opener"),
        ("Ready?", "Ready?", "echo"),
        ("Merry Christmas", "Merry Christmas!", None),
        ("", "Solution", "opener"),
        ("", "∞", None),
    ],
)
def test_the_rules_have_the_exceptions_they_state(question: str, answer: str, held: str | None) -> None:
    """Symbols pass where a symbol is asked for, single words where a word is, greetings where one was given."""
    assert classify_non_answer(answer, question=question) == held


def test_a_rubric_gives_its_lowest_level() -> None:
    """On other levels than 1 to 4 a key gets the worst; a judge with a language of its own keeps to it."""
    judge = Rubric(ScriptedModel([]), criteria="Is it kind?", levels={0: "no", 1: "partly", 2: "yes"})
    verdict = judge(user_input=QUESTION, response="Solution")
    assert (verdict.value, verdict.score, verdict.rating, verdict.passed) == (0, 0, 1, False)
    assert unasked(language="ru")(user_input=QUESTION, response=":").feedback.startswith("Ответь")


def test_the_gate_may_be_left_open() -> None:
    """Where it is switched off, the model judges keys as well."""
    model = ScriptedModel([{"rationale": "r", "rating": 2, "feedback": "f"}] * 2)
    assert asked(Helpfulness(model, gate=False)(user_input=QUESTION, response=":"))
    rubric = Rubric(model, criteria="c", levels={1: "a", 2: "b"}, gate=False)
    assert asked(rubric(user_input=QUESTION, response=":"))


def test_the_last_question_counts() -> None:
    """In a conversation the copy of an earlier question is no echo, that of the last one is."""
    conversation = [
        ("user", QUESTION),
        ("assistant", "Eight."),
        ("user", "Which legs does it use to spin its web?"),
    ]
    assert asked(judged(conversation, QUESTION))  # type: ignore[arg-type]  # a conversation is a question too
    assert not asked(judged(conversation, "Which legs does it use to spin its web?"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        (":" * 1_000_000, "symbols"),
        ("\u200b" * 1_000_000 + "Solution", "opener"),
        ("解答" * 500_000 + "x", None),
        ("Solution " * 100_000, None),
        (QUESTION * 30_000, None),
        ("\ufdfa" * 1_000_000, None),
        ("Eight. " * 150_000, None),
    ],
    ids=["symbols", "hidden", "openers", "solutions", "questions", "ligatures", "words"],
)
def test_a_megabyte_is_gated_at_once(answer: str, held: str | None) -> None:
    """No answer, however long, holds the gate up for seconds; a very long run of openers is the model's."""
    started = time.process_time()
    assert classify_non_answer(answer, question=QUESTION) == held
    assert time.process_time() - started < 2
