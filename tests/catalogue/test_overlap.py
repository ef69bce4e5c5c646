"""Answer and reference compared as texts, as JSON by field, and as tables by rows and columns."""

from __future__ import annotations

import csv
import json
import random
import time
from enum import Enum
from io import StringIO
from typing import Any

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from judges import ConfigurationError, Verdict, as_judge, load, no_model_requests
from judges.catalogue.parts.similarity import cosine
from judges.catalogue.parts.tables import table_in
from judges.catalogue.parts.text import (
    count_characters,
    count_words,
    strip_fence,
    tokens,
)
from judges.catalogue.ragas.overlap import _common_ends, _common_subsequence, _normalize_text, _stem
from judges.errors import CannotJudge
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import asked
from tests.laws import for_every


@for_every("variant", ["corrected", "compat"])
def test_further_settings_of_bleu(variant: Any) -> None:
    """By the name ragas gives them, and with its own tokenizer where one is asked for."""
    sample = {"response": "the cat sat on a mat", "reference": "the cat sat on the mat today"}
    given, wanted = [sample["response"]], [[sample["reference"]]]
    for kwargs in ({"smooth_method": "floor", "smooth_value": 0.5}, {"tokenize": "char"}):
        expected = sacrebleu.corpus_bleu(given, wanted, force=True, **kwargs).score / 100
        verdict = load("bleu_score", kwargs={**kwargs, "use_effective_order": False}, variant=variant)(sample)
        assert verdict.score == pytest.approx(expected)
    for wrong in ({"smooth": 1}, {"smooth_method": "none at all"}):
        with pytest.raises(ConfigurationError, match="kwargs: corpus_bleu takes no"):
            load("bleu_score", kwargs=wrong)


def test_further_settings_of_chrf() -> None:
    """By the name ragas gives them."""
    sample = {"response": "a b c", "reference": "ab c d"}
    for kwargs in ({"remove_whitespace": False}, {"word_order": 2}, {"eps_smoothing": True}):
        expected = sacrebleu.corpus_chrf([sample["response"]], [[sample["reference"]]], **kwargs).score / 100
        assert load("chrf_score", kwargs=kwargs)(sample).score == pytest.approx(expected)
    with pytest.raises(ConfigurationError, match="kwargs: corpus_chrf takes no"):
        load("chrf_score", kwargs={"order": 1})


@for_every(
    "word, stemmed",
    [
        ("caresses", "caress"), ("ponies", "poni"), ("dies", "die"), ("died", "die"), ("spied", "spi"),
        ("agreed", "agre"), ("feed", "feed"), ("plastered", "plaster"), ("bled", "bled"), ("sing", "sing"),
        ("conflated", "conflat"), ("troubled", "troubl"), ("sized", "size"), ("hopping", "hop"),
        ("falling", "fall"), ("filing", "file"), ("happy", "happi"), ("enjoy", "enjoy"),
        ("relational", "relat"), ("radically", "radic"), ("generalization", "gener"), ("electrical", "electr"),
        ("adoption", "adopt"), ("rate", "rate"), ("cease", "ceas"), ("controlling", "control"),
        ("skies", "sky"), ("geology", "geolog"), ("hopefully", "hope"), ("canning", "canning"),
        ("yyyy", "yyyi"), ("by", "by"), ("1000ft", "1000ft"),
    ],
)  # fmt: skip
def test_english_words_are_stemmed(word: str, stemmed: str) -> None:
    """As Porter does, with the amendments of NLTK."""
    assert _stem(word) == stemmed


def test_a_megabyte_against_a_page_is_scored() -> None:
    """Long texts are compared exactly; two that are both very long and different are unscored."""
    judge = load("rouge_score")
    long = " ".join(f"w{n % 5000}" for n in range(150_000))
    assert judge(response=long, reference="w1 w2 w3 w4999 nowhere").score == pytest.approx(8 / 150_005)
    dense = "".join(chr(0x4E00 + n * n % 3001) for n in range(250_000))
    assert judge(response=dense, reference=dense[::-1] + "。").unscored == "undefined"
    assert judge(response=dense, reference=dense).score == 1


GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
GUIDE_REFERENCE = "It is a guide to action that ensures that the military will forever heed Party commands"
WORDS = "run runs running cat cats the a mouse mice jumped jump over dogs dog quickly quick, house!".split()  # noqa: SIM905 - reads as a text


class NoWordNet:
    """A WordNet without entries."""

    def synsets(self, word: str) -> list[Any]:
        """Know nothing."""
        return []


def expected(words: tuple[list[str], list[str]], weights: dict[str, float]) -> float:
    """Return nltk's own number for words, without synonyms."""
    from nltk.stem.porter import PorterStemmer  # noqa: PLC0415 - it loads for a second, in each process that runs tests
    from nltk.translate.meteor_score import single_meteor_score  # noqa: PLC0415 - likewise

    answer, reference = words
    return float(single_meteor_score(reference, answer, stemmer=PorterStemmer(), wordnet=NoWordNet(), **weights))


def test_the_number_is_that_of_nltk_where_no_synonym_plays() -> None:
    """Its documented example, and random texts of inflected words, by both variants and other weights."""
    assert load("meteor")(answer=GUIDE, reference=GUIDE_REFERENCE).score == pytest.approx(0.6944, abs=5e-5)
    chance = random.Random(15)
    for _ in range(150):
        answer, reference = (" ".join(chance.choices(WORDS, k=chance.randint(1, 12))) for _ in range(2))
        weights = {"alpha": chance.random(), "beta": 4 * chance.random(), "gamma": chance.random()}
        words = tokens(answer, "auto"), tokens(reference, "auto")
        marked = tokens(answer, "13a"), tokens(reference, "13a")
        sample = {"answer": answer, "reference": reference}
        if answer != reference:
            assert load("meteor", **weights)(sample).score == pytest.approx(expected(words, weights), abs=1e-12)
        compat = load("METEOR", variant="compat", **weights)(sample)
        assert compat.score == pytest.approx(expected(marked, weights), abs=1e-12)


def test_texts_too_long_to_compare_are_unscored() -> None:
    """Two megabytes would take a minute; the same text twice takes none."""
    one, other = "ab" * 500_000, "ba" * 500_000
    judge = load("non_llm_string_similarity")
    assert judge(response=one, reference=other + "x" * 9).score is None
    assert judge(response=one, reference=other + "x" * 9).unscored == "undefined"
    assert judge(response=one, reference=one).score == 1
    assert judge(response=one + "x", reference=one + "y").score == pytest.approx(1, abs=1e-5)
    assert load("non_llm_string_similarity", distance_measure="hamming")(response=one, reference=other).score == 0


def test_the_measures_of_ragas_are_known_by_its_enumeration() -> None:
    """Each member has the name as its value."""
    measure = Enum("measure", {"HAMMING": "hamming"})
    judge = load("non_llm_string_similarity", distance_measure=measure.HAMMING)
    assert judge(response="abc", reference="abd").score == pytest.approx(2 / 3)


@for_every(
    "text, tokenizer, found",
    [
        ("Don't stop: 3.14!", "auto", ["don", "t", "stop", "3", "14"]),
        ("埃菲尔 in 巴黎。", "auto", ["埃", "菲", "尔", "in", "巴", "黎", "。"]),
        ("GPT模型４", "auto", ["gpt", "模", "型", "4"]),
        ("हिन्दी भाषा", "auto", ["हिन्दी", "भाषा"]),
        ("Ёлка, ÉTÉ", "auto", ["ёлка", "été"]),
        ("שלום עולם", "auto", ["שלום", "עולם"]),
        ("Don't pay $5, ok.", "13a", ["Don't", "pay", "$", "5", ",", "ok", "."]),
        ("价格 5.", "zh", ["价", "格", "5", "."]),
        ("a 你", "char", ["a", "你"]),
        ("a_b 你好", "word", ["a", "b", "你好"]),
        ("🗼 {x}", "auto", ["x"]),
        ("", "auto", []),
    ],
)
def test_texts_become_tokens(text: str, tokenizer: Any, found: list[str]) -> None:
    """Scripts without blanks by the character, all others by the word."""
    assert tokens(text, tokenizer) == found


def test_words_and_characters_are_counted_apart() -> None:
    """Words are what stands between blanks; marks are no characters."""
    assert (count_words("a bc — d'e 你好"), count_characters("你好，world。")) == (3, 2)


@for_every(
    "one, other, length",
    [("", "abc", 0), ("abc", "abc", 3), ("abcbdab", "bdcaba", 4), ("axbxc", "abc", 3), ("abc", "xyz", 0)],
)
def test_the_longest_common_subsequence(one: str, other: str, length: int) -> None:
    """Exact, whatever the size of the blocks it is computed in."""
    for block in (1, 2, 3, 8192):
        assert _common_subsequence(list(one), list(other), block=block) == length


def test_common_ends_do_not_overlap() -> None:
    """What is common at the beginning is not counted again at the end."""
    assert _common_ends("aaa", "aa") == (2, 0)
    assert _common_ends("abxc", "abyc") == (2, 1)


def test_a_code_fence_is_taken_off() -> None:
    """Only where it is around the whole text."""
    assert strip_fence("```sql\nSELECT 1\n```") == "SELECT 1"
    assert strip_fence("see ```x```") == "see ```x```"
    assert _normalize_text(" a  b ", ["trim"]) == "a b"


def test_texts_may_be_normalised_by_a_set() -> None:
    """The order of what is made alike does not matter, so that a set, or a tuple, will do."""
    for normalize in ({"casefold"}, ("nfkc", "casefold")):
        assert load("exact_match", normalize=normalize)(response="paris", reference="Paris").score == 1


EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower?",
    "response": "It is in Paris.",
    "reference": "The Eiffel Tower is in Paris.",
}


def embedding(answer: object, reference: object) -> ScriptedEmbeddings:
    """Make embeddings that know the two texts of the sample, and a blank."""
    return ScriptedEmbeddings({EIFFEL["response"]: answer, EIFFEL["reference"]: reference, " ": [1.0, 0.0]})


async def test_a_cross_encoder_takes_the_place_of_embeddings() -> None:
    """It is given the pair, answer first."""
    seen: list[object] = []

    def encoder(pairs: Any) -> list[float]:
        seen.extend(pairs)
        return [0.83]

    judge = load("semantic_similarity", cross_encoder=encoder)
    assert [judge(EIFFEL).value, (await judge.acall(EIFFEL)).value] == [0.83, 0.83]
    assert seen == [(EIFFEL["response"], EIFFEL["reference"])] * 2


@for_every("given", [[7.3], [], [0.1, 0.2], [float("nan")], ["high"], None])
def test_a_cross_encoder_that_gives_no_similarity_is_unscored(given: Any) -> None:
    """One finite number from -1 to 1 is wanted."""
    assert load("semantic_similarity", cross_encoder=lambda pairs: given)(EIFFEL).unscored == "invalid_output"


def test_an_async_cross_encoder_will_do() -> None:
    """It is awaited."""

    async def encoder(pairs: Any) -> list[float]:
        return [0.25 for _ in pairs]

    assert load("semantic_similarity", cross_encoder=encoder)(EIFFEL).value == 0.25


@for_every("text", ["{braces} %s $name", "你好，世界。", "שלום", "🎈", "a" * 1_000_000])
def test_any_text_is_embedded_as_it_is(text: str) -> None:
    """Nothing is substituted, cut or refused."""
    embeddings = ScriptedEmbeddings(lambda one: [float(len(one)), 1.0])
    verdict = load("semantic_similarity", embeddings=embeddings)({**EIFFEL, "response": text, "reference": text})
    assert (verdict.value, embeddings.batches) == (1.0, [[text, text]])


def test_scripted_embeddings_work_where_requests_are_forbidden() -> None:
    """As scripted models do."""
    with no_model_requests():
        assert load("semantic_similarity", embeddings=embedding([1], [1]))(EIFFEL).value == 1.0


@for_every(
    "one, other, wanted",
    [
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], 1.0),
        ([1e-200, 2e-200], [1e-200, 2e-200], 1.0),
        ([1e300, 1e300], [1e300, 1e300], 1.0),
        ([0.1, 0.7], [-0.1, -0.7], -1.0),
    ],
)
def test_a_cosine_is_exact_for_equal_vectors(one: list[float], other: list[float], wanted: float) -> None:
    """No 1.0000000000000002, and no overflow."""
    assert cosine(one, other) == wanted


def matched(expected: Any, actual: Any, **settings: Any) -> Verdict:
    """Compare two values."""
    row = {"user_input": "Extract it.", "response": json.dumps(actual), "reference": json.dumps(expected)}
    return load("json_match", **settings)(row)


def near(answer: str, reference: str) -> float:
    """Compare two numbers."""
    return 1.0 if answer == reference else 0.5 if abs(float(answer) - float(reference)) < 2 else 0.0


async def test_a_field_may_have_a_judge_of_its_own() -> None:
    """With the field's value as the answer and the expected one as the reference; in lists for each element."""
    expected, actual = {"n": 5, "items": [{"t": 1}, {"t": 2}]}, {"n": 6, "items": [{"t": 2}, {"t": 9}]}
    row = {"response": json.dumps(actual), "reference": json.dumps(expected)}
    judge = load("json_match", fields={"$.n": near, "items[*].t": as_judge(near, name="near")})
    for verdict in (judge(row), await judge.acall(row)):
        assert [item.score for item in verdict.items] == [0.5, 0.5, 0.0]
        assert [item.subject for item in verdict.items] == ["n", "items[0].t", "items[1].t"]
        assert verdict.score == pytest.approx(1 / 3)
    assert "no field to judge at z" in load("json_match", fields={"z": near})(row).detail


async def test_the_calls_are_those_of_the_fields_judges() -> None:
    """As the explanation says; all fields are asked about, with their own values alone."""
    reply = {"rationale": "so", "verdict": True, "feedback": ""}
    model = ScriptedModel([reply] * 8)
    tone = load("databricks.custom", model=model, criteria="Is the answer kind?")
    judge = load("json_match", fields={"text": tone, "notes[]": tone})
    assert judge.explain().calls == "1 + 1; for each element of notes[]"
    assert [one.name for one in judge.models] == [one.name for one in tone.models] * 2
    value = {"text": "Thank you!", "notes": ["a", "b"]}
    row = {"user_input": "Hi?", "response": json.dumps(value), "reference": json.dumps(value)}
    for verdict in (judge(row), await judge.acall(row)):
        assert (verdict.score, verdict.usage.calls) == (1, 3)
    assert {str(one["answer"]) for one in asked(model)} == {"Thank you!", "a", "b"}


def test_a_field_that_cannot_be_judged_leaves_all_unscored() -> None:
    """With the reason of its judge, and its path."""
    silent = as_judge(lambda answer: Verdict.without_score("undefined", "no telling"), name="silent")
    verdict = matched({"a": 1}, {"a": 1}, fields={"a": silent})
    assert (verdict.unscored, verdict.detail) == ("undefined", "field 'a': no telling")


@for_every(
    "response, reference, unscored, score",
    [
        ("not JSON", '{"a": 1}', None, 0.0),
        ("NaN", '{"a": 1}', None, 0.0),
        ("[" * 100_000, "[]", None, 0.0),
        ('{"a": 1}', "not JSON", "invalid_sample", None),
        ('{"a": 1}', None, "no_reference", None),
        (" ", "{}", "no_response", None),
    ],
)
def test_what_is_no_json(response: str, reference: str | None, unscored: str | None, score: float | None) -> None:
    """In the answer it is wrong; in the reference nothing can be matched."""
    verdict = load("json_match")(response=response, reference=reference)
    assert (verdict.unscored, verdict.score) == (unscored, score)


def test_long_and_deep_values_are_compared_in_time() -> None:
    """Equal elements need no pairing; too many that differ are unscored at once."""
    began = time.process_time()
    many = [{"n": number} for number in range(3_000)]
    assert matched(many, many[::-1], lists="same_elements").score == 1
    assert (
        matched(many, [{"n": -number} for number in range(1, 3_000)], lists="same_elements").unscored
        == "undefined"
    )
    text = "[" * 700 + "]" * 700
    assert load("json_match")(response=text, reference=text).unscored in (None, "undefined")
    assert time.process_time() - began < 4


SOURCE = ("id,amount,name\n1,123.45,Ann\n2,5,Bob\n", "id,amount,name\n1,123.4,Ann\n2,5,Bob\n")
ACCOUNTS = """\
acct_id,dollar_amt,name,float_fld,date_fld
10000001234,123.45,George Maharis,14530.1555,2017-01-01
10000001235,0.45,Michael Bluth,1,2017-01-01
10000001236,1345,George Bluth,,2017-01-01
10000001237,123456,Bob Loblaw,345.12,2017-01-01
10000001238,1.05,Lucille Bluth,,2017-01-01
10000001238,1.05,Loose Seal Bluth,,2017-01-01
"""
EXPECTED = """\
acct_id,dollar_amt,name,float_fld
10000001234,123.4,George Michael Bluth,14530.155
10000001235,0.45,Michael Bluth,
10000001236,1345,George Bluth,1
10000001237,123456,Robert Loblaw,345.12
10000001238,1.05,Loose Seal Bluth,111
"""
DOCUMENTED = (ACCOUNTS, EXPECTED)
REORDERED = ("id,name\n2,y\n3,z\n1,x\n", "id,name\n1,x\n2,y\n3,z\n")
EQUAL = ("id,name\n1,x\n", "id,name\n1,x\n")


def tables_compared(tables: tuple[str, str], **settings: Any) -> Verdict:
    """Compare two tables."""
    return load("data_compy_score", **settings)(user_input="Which rows?", response=tables[0], reference=tables[1])


def scores(tables: tuple[str, str], **settings: Any) -> list[float | None]:
    """Give precision, recall and f1."""
    return [tables_compared(tables, metric=one, **settings).score for one in ("precision", "recall", "f1")]


@for_every(
    "tables, mode, compat, corrected",
    [
        (SOURCE, "rows", [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        (SOURCE, "columns", [2 / 3] * 3, [2 / 3] * 3),
        (DOCUMENTED, "rows", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        (DOCUMENTED, "columns", [0.2, 0.25, 2 / 9], [0.2, 0.25, 2 / 9]),
        (REORDERED, "rows", [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (REORDERED, "columns", [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (EQUAL, "rows", [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        (EQUAL, "columns", [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        (("a\n1\n2\n", "a\n1\n"), "rows", [0.5, 1.0, 2 / 3], [0.5, 1.0, 2 / 3]),
        (("a\n1\n", "a\n1\n1\n"), "rows", [1.0, 0.5, 2 / 3], [1.0, 0.5, 2 / 3]),
        (("a,b\n1,2\n", "c,d\n1,2\n"), "columns", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        (("姓名,城市\n张三,巴黎\n李四,伦敦\n", "姓名,城市\n张三,巴黎\n李四,罗马\n"), "rows", [0.5] * 3, [0.5] * 3),
    ],
)
def test_precision_recall_and_f1(
    tables: tuple[str, str], mode: str, compat: list[float], corrected: list[float]
) -> None:
    """Equal / those of the answer, equal / those of the reference, and their harmonic mean."""
    assert scores(tables, mode=mode, variant="compat") == pytest.approx(compat, abs=1e-12)
    assert scores(tables, mode=mode) == pytest.approx(corrected, abs=1e-12)


def test_a_megabyte_is_compared() -> None:
    """35,000 rows in another order, in well under a second."""
    rows = [f"{number},{number * 0.37:.4f},x{number % 7}" for number in range(35_000)]
    tables = ("\n".join(["a,b,c", *rows[::-1]]), "\n".join(["a,b,c", *rows]))
    assert tables_compared(tables).score == 1
    assert tables_compared(tables, mode="columns", tolerance=0.001).score == 1


_GRID = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6)


@given(_GRID, _GRID)
def test_no_pairing_within_the_tolerance_has_more_rows(mine: list[tuple[int, int]], theirs: Any) -> None:
    """As brute force finds it, in two columns of numbers."""
    near = [[place for place, (c, d) in enumerate(theirs) if max(abs(a - c), abs(b - d)) <= 1] for a, b in mine]

    def most(row: int, taken: frozenset[int]) -> int:
        if row == len(mine):
            return 0
        return max(
            [most(row + 1, taken), *(1 + most(row + 1, taken | {one}) for one in near[row] if one not in taken)]
        )

    tables = tuple("a,b\n" + "\n".join(f"{a / 10},{b / 10}" for a, b in rows) for rows in (mine, theirs))
    assert tables_compared((tables[0], tables[1]), tolerance=0.1, metric="precision").score == most(
        0, frozenset()
    ) / len(mine)


def test_too_many_rows_within_the_tolerance_are_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pairing that is not the fullest would be a wrong score."""
    monkeypatch.setattr("judges.catalogue.parts.tables._STEPS", 1)
    assert tables_compared(("a\n1\n2\n3", "a\n1.1\n2.1\n3.1"), tolerance=0.5).unscored == "undefined"


def test_many_rows_within_the_tolerance_are_paired_in_seconds() -> None:
    """Each of 3,000 rows near each other, in two columns."""
    rows = "a,b\n" + "\n".join(f"{number * 1e-9},{-number * 1e-9}" for number in range(3_000))
    assert load("data_compy_score", tolerance=1)(response=rows, reference=rows.replace("e-0", "e-1")).score == 1


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_a_text_of_many_commas_is_no_table_within_seconds(variant: Any) -> None:
    """It is a header of as many columns, which the feedback does not name one by one."""
    started = time.process_time()
    text = ",".join(f"column {number}" for number in range(20_000))
    verdict = load("data_compy_score", variant=variant)(response=text, reference="a,b\n1,2")
    assert (verdict.score, len(verdict.feedback) < 1500) == (0, True)
    load("data_compy_score", variant=variant)(response=text, reference=text)
    assert time.process_time() - started < 5


def test_texts_too_long_to_be_aligned_are_unscored_however_alike_they_are() -> None:
    """Jaro's measures go through both texts as wholes, so that equal ends save nothing."""
    text = "ab" * 150_000
    judge = load("non_llm_string_similarity", distance_measure="jaro")
    assert judge(response=text + "x" + text, reference=text + text).unscored == "undefined"


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@for_every("cell", ["x" * 200_000, "1" * 200_000 + "x", '"' + '""' * 200_000 + '"'])
def test_a_long_cell_is_read(variant: Any, cell: str) -> None:
    """Beyond the limit of the csv module, in no time."""
    table = f"a\n{cell}"
    assert load("data_compy_score", variant=variant)(response=table, reference=table).score == 1


@given(st.text('a", \r\n', max_size=20))
def test_cells_are_those_of_the_csv_module(text: str) -> None:
    """Quotes, doubled quotes and ends of lines; blank lines aside."""
    wide = ",".join("x" * 25)
    try:
        found = table_in(f"{wide}\n1\n{text}", called="table").rows[1:]
    except CannotJudge:
        with pytest.raises(csv.Error):
            list(csv.reader(StringIO(text, newline=""), strict=True))
        return
    wanted = [row + [""] * (25 - len(row)) for row in csv.reader(StringIO(text, newline=""))]
    assert [list(row) for row in found if "".join(row).strip()] == [row for row in wanted if "".join(row).strip()]
