"""The commands: what each does is imported when it runs, so that `--help` answers at once."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperGroup

from refine.cli import options as of
from refine.cli.options import CommandOptions, options_from, parameters_of

_INTERRUPTED = 130
"""Exit code that a shell expects of a program stopped with Ctrl-C."""

_NO_WAY_ON = ("refine resume", " is in use by ", "begin a new run")
"""What a message says that tells how to go on, or that going on is in vain."""

_HELP_INSTEAD = "NoArgsIsHelpError"
"""What typer raises, in place of an error, to show the help of a command without arguments."""


class _Commands(TyperGroup):
    """The commands in groups; wrong usage is reported like all other wrong input, in one line with exit code 2."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run a command, and end the process unless `standalone_mode` is off."""
        if not settings.get("standalone_mode", True):
            return super().main(*args, **settings)
        try:
            code = super().main(*args, **{**settings, "standalone_mode": False})
        except typer.Abort:
            code = _error_exit("interrupted", code=_INTERRUPTED).exit_code
        except Exception as error:
            if (code := _report_usage(error)) is None:
                raise
        return sys.exit(code or 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called; of a word that others have for it, the error names ours."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            meant = _guesses("commands").get(args[0])
            if meant is not None and hasattr(error, "message"):
                hint = f"; {meant}" if " " in meant else f". Did you mean {meant!r}?"
                error.message = f"No such command {args[0]!r}{hint}"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer passes it
        """List the commands group by group, in the order in which they are written here."""
        for group in dict.fromkeys(_groups.values()):
            names = [name for name, of_group in _groups.items() if of_group == group]
            with formatter.section(group):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=90)) for name in names])


def _error_exit(message: str, *, code: int = 2) -> typer.Exit:
    """Write a message as one line to stderr, and return the exit to raise."""
    typer.echo(f"refine: {' '.join(message.split())}", err=True)
    return typer.Exit(code)


@contextmanager
def _one_line_errors(options: CommandOptions) -> Iterator[None]:
    """Report wrong input in one line on stderr, and exit with 2; where a run can be resumed, say how."""
    from judges import JudgesError

    try:
        yield
    except BrokenPipeError:  # whoever reads, such as `head`, has enough: the command line ends without a word
        raise
    except OSError as error:
        raise _error_exit(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from None
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "prompt_toolkit":
            raise
        raise _error_exit("labelling needs prompt_toolkit; install the extra: selfrefine[cli]") from None
    except JudgesError as error:
        raise _error_exit(f"{error}{_way_on(options.resumable, str(error))}", code=error.exit_code) from None
    except KeyboardInterrupt:
        raise _error_exit(f"interrupted{_way_on(options.resumable)}", code=_INTERRUPTED) from None


def _way_on(run: Path | None, message: str = "") -> str:
    """Return how to go on with a run of which something is judged."""
    if run is None or any(words in message for words in _NO_WAY_ON):
        return ""
    try:
        is_begun = (run / "journal.jsonl").exists() and not (run / "summary.json").exists()
    except (OSError, ValueError):
        return ""
    return f"; go on with `refine resume {run}`" if is_begun else ""


def _guesses(table: str) -> Mapping[str, str]:
    from judges.first_guesses import guesses

    return guesses(table)


_ARGUMENTS_MEANT = ("dataset", "data", "input", "rows", "file", "path", "run", "source")
"""Options that others have for what a command takes without one."""


def _option_meant(name: str, context: Any) -> str:
    """Return what to write instead of an option that a command does not have; empty where nothing is known."""
    if not name or context is None:
        return ""
    has = {option for parameter in context.command.params for option in parameter.opts}
    word = name.lstrip("-")
    option_name = _guesses("options").get(word, "")
    meant = next((option for option in option_name.split() if option in has), "")
    taken = [one.name.upper() for one in context.command.params if one.param_type_name == "argument"]
    if not meant and word in _ARGUMENTS_MEANT and taken:
        meant = f"given without an option: {context.command_path} {' '.join(taken)}"
    return f"here it is {meant}" if meant else option_name if not option_name.startswith("--") else ""


_SETTING = re.compile(r"[(](\w+=[^\s)]+)")


def _setting_in(error: Exception, context: Any) -> str:
    """Return how a judge's setting is written, if one stands beside the judge, as a word or as an option."""
    if context is None or not any("--judge" in parameter.opts for parameter in context.command.params):
        return ""
    word = _SETTING.search(str(error))
    name = getattr(error, "option_name", "").lstrip("-")
    setting = word[1] if word else f"{name}=..." if "_" in name else ""
    return f"; a judge's settings follow its name and a colon, --judge NAME:{setting}" if setting else ""


def _report_usage(error: Exception) -> int | None:
    """Report an error of typer's own, and return the exit code; None for any other error."""
    describe = getattr(error, "format_message", None)
    if describe is None:
        return None
    if type(error).__name__ == _HELP_INSTEAD:
        typer.echo(describe(), err=True)
        return 2
    context = getattr(error, "ctx", None)
    meant = _option_meant(getattr(error, "option_name", ""), context)
    if meant:
        return _error_exit(f"No such option: {error.option_name}; {meant}").exit_code  # type: ignore[attr-defined]  # typer's
    setting = _setting_in(error, context)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return _error_exit(f"{describe().rstrip('.')}{setting or hint}").exit_code


app = typer.Typer(
    name="refine",
    cls=_Commands,
    help="Judge answers of a chat application: offline, or before anyone sees them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text needs no rich, and brackets in it mean nothing
    context_settings={"help_option_names": ["-h", "--help"]},
)

_TERSE = frozenset({"resume"})
"""Commands that lack an argument in one line: what a killed run names, a person types from memory."""

_groups: dict[str, str] = {}
"""The group of each command, in order."""

_OPTIONS = TypeVar("_OPTIONS", bound=CommandOptions)
_Run = Callable[[_OPTIONS], int | None]


def _command(group: str, runs: str = "", of_trial: str = "") -> Callable[[_Run[_OPTIONS]], _Run[_OPTIONS]]:
    """Make a command of a function: its docstring is the help, its class of options what may be written.

    Args:
        group: Under which heading `refine --help` lists it.
        runs: The module of this package and the function in it that does it; empty is the function itself.
        of_trial: The same for the folder of a trial, where that may stand in the place of a run's.
    """

    def register(run: _Run[_OPTIONS]) -> _Run[_OPTIONS]:
        kind = get_type_hints(run)["options"]
        parameters = list(parameters_of(kind))

        def command(**values: Any) -> None:
            options = options_from(kind, values)
            with _one_line_errors(options):
                place = of_trial if of_trial and _is_of_trial(options) else runs
                module, _, function = place.rpartition(".")
                act = getattr(import_module(f"refine.cli.{module}"), function) if place else run
                raise typer.Exit(act(options) or 0)

        command.__doc__, command.__name__ = run.__doc__, run.__name__
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        name = run.__name__.strip("_").replace("_", "-")
        is_bare = all(one.default is not one.empty for one in parameters)
        app.command(name, no_args_is_help=not is_bare and name not in _TERSE)(command)
        _groups[name] = group
        return run

    return register


def _is_of_trial(options: Any) -> bool:
    from refine.trials.manifest import is_trial

    return is_trial(options.run)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer passes an option's value by position
    if value:
        from judges.fingerprint import package_version

        typer.echo(f"refine {package_version()}")
        raise typer.Exit


@app.callback()
def _refine(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Judge answers of a chat application: offline, or before anyone sees them."""


def _require(packages: Sequence[str], extra: str) -> None:
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise _error_exit(f"{', '.join(missing)} missing; install the extra: selfrefine[{extra}]")


_JUDGE = "Judge a dataset"


@_command(_JUDGE, "judge_list.list_judges")
def _judges(options: of.ListOptions) -> None:
    """List the judges there are, or tell all about one.

    \b
    refine judges
    refine judges --find "my bot invents prices"
    refine judges --needs contexts,reference --subject answer
    refine judges ragas.faithfulness
    refine judges helpfulness --check --model openai:gpt-5-mini
    refine judges lint judges.toml
    """


@_command(_JUDGE, "judge_list.run_draft")
def _draft(options: of.DraftOptions) -> None:
    """Write a judge of dimensions that tell your answers apart.

    Ends with 1 where none does. What it writes is linted; try it on other answers before it guards anything.

    \b
    refine draft --about "Answers questions about orders." --model openai:gpt-5-mini
    refine draft labelled.jsonl --system prompt.txt --model openai:gpt-5-mini --out judges.toml
    """


@_command(_JUDGE, "trust.run_try_judge")
def _try_judge(options: of.TryJudgeOptions) -> None:
    """Try a judge on worked cases before it guards anything.

    Half of the answers must pass, the others must not. `refine judges NAME --check` is the same.

    \b
    refine try-judge --judge helpfulness --model openai:gpt-5-mini
    refine try-judge --judge my_judge:judge --pairs pairs.jsonl

    Exit code: 0 use it, perhaps with care, 1 do not use it, 2 bad input.
    """


@_command(_JUDGE, "estimate.run_estimate")
def _estimate(options: of.EstimateOptions) -> None:
    """Say what judging a dataset will take and cost.

    Calls, tokens and a range of cost; no model is asked.

    \b
    refine estimate rows.jsonl --judge faithfulness --model openai:gpt-5-mini
    refine estimate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --prices prices.json
    """


@_command(_JUDGE, "runs.run_evaluate")
def _evaluate(options: of.EvaluateOptions) -> None:
    """Judge every row of a dataset.

    A row holds what was asked and what was answered, {"question": ..., "answer": ...}, and whatever else there
    is: contexts, reference, messages, ...

    \b
    refine evaluate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --out runs/1
    refine evaluate rows.jsonl --judge length:at_most=80,unit=words --judge json --out runs/2
    refine evaluate rows.csv --judge 'pattern:name=humble,forbidden="as an AI"'

    Settings are those of the judge's class; a value is read as JSON where it is JSON, else as text. Two judges
    of one kind need a name=... each.

    Every call and verdict is in the run's journal: what stops it, `refine resume RUN` goes on where it was.

    Exit code: 0 judged and good enough, 1 below --fail-under, worse than --baseline, or nothing could be scored,
    2 bad input, 3 stopped at --max-calls or --max-cost, or more than --max-unscored could not be judged.
    """


@_command(_JUDGE, "runs.run_resume", of_trial="trial.resume_trial")
def _resume(options: of.ResumeOptions) -> None:
    """Go on with a run that was stopped: judge only what is missing.

    Limits are those of this command; the run's earlier ones do not count any more.

    \b
    refine resume runs/1
    refine resume runs/1 --retry-failed --max-cost 5

    Exit code: as of `refine evaluate`.
    """


@_command(_JUDGE, "runs.run_rescore")
def _rescore(options: of.RescoreOptions) -> None:
    """Add judges to a run, or replace those of the same name.

    The other verdicts stay. Model, server and language are those of the run unless others are given.

    \b
    refine rescore runs/1 --judge length:at_most=80,unit=words
    refine rescore runs/1 --like runs/2

    Exit code: as of `refine evaluate`.
    """


@_command(_JUDGE, "runs.run_merge")
def _merge(options: of.MergeOptions) -> None:
    """Merge the shards of a run into one.

    The files are those of one process that judged the whole dataset.

    \b
    refine evaluate rows.jsonl --judge json --shard 1/2 --out runs/1
    refine evaluate rows.jsonl --judge json --shard 2/2 --out runs/2
    refine merge runs/1 runs/2 --out runs/all
    """


@_command(_JUDGE, "judge_list.write_new_judge")
def _new_judge(options: of.NewJudgeOptions) -> None:
    """Begin a judge of your own: a package with prompts and a test.

    \b
    refine new-judge brevity
    refine new-judge shop.promises --out promises

    It installs with `pip install ./brevity`, and `refine evaluate --judge brevity` then knows it.
    """


_RUNS = "Read and compare runs"


@_command(_RUNS, "runs.run_show", of_trial="trial.show_trial")
def _show(options: of.ShowOptions) -> None:
    """Show the totals of a finished run, and what went wrong in it.

    \b
    refine show runs/1
    refine show runs/1 --slice topic
    """


@_command(_RUNS)
def _report(options: of.ReportOptions) -> int:
    """Write a report of a finished run, or of two side by side.

    It is one file that opens without a network.

    \b
    refine report runs/1
    refine report runs/1 runs/2 --slice topic --out report.html
    refine report runs/1 --out report.md
    refine report runs/1 --labels labels.jsonl --attempts attempts.jsonl

    It shows each judge's figures with their intervals, groups, the worst rows with reasons, and all rows; with
    labels, attempts or a certificate, also how far the verdicts can be believed.
    """
    from refine.report.file import write_report

    gc.disable()  # hundreds of thousands of rows stay to the end: nobody need look for garbage among them
    file = write_report(
        [run for run in (options.run, options.later_run) if run is not None],
        options.out,
        form=options.format,
        slices=options.slices,
        labels=options.labels,
        attempts=options.attempts,
        certificate=options.certificate,
        seed=options.seed,
    )
    if str(file) != "-":
        typer.echo(file)
    return 0


@_command(_RUNS, "compare.run_compare")
def _compare(options: of.CompareOptions) -> None:
    """Say whether run B is better than run A by more than chance.

    Over the same questions. By the scores that both runs have; or, with --judge, by showing a judge both
    answers to each question.

    \b
    refine compare runs/1 runs/2
    refine compare runs/1 runs/2 --judge pairwise --model openai:gpt-5-mini
    """


@_command(_RUNS, "compare.run_plan")
def _plan(options: of.PlanOptions) -> None:
    """Say how many questions a comparison of two systems needs.

    \b
    refine plan runs/1 runs/2
    refine plan --points 3 --discordance 0.2
    """


_LOOPS = "Loops, labels and certificates"


@_command(_LOOPS, "trial.run_trial")
def _trial(options: of.TrialOptions) -> None:
    """Try out on your questions whether feedback mends answers.

    The first answer to each question is generated once, and every arm goes on from it, with as many generations as
    the others. The loop's judge decides whether to go on; what is good is for another judge to say, or for people.

    \b
    refine trial questions.jsonl --generator openai:gpt-5-mini --judge helpfulness \\
        --model openai:gpt-5 --truth 'ragas.factual_correctness' --out trials/one
    refine trial questions.jsonl --generator app:bot --judge length:at_most=80 \\
        --arms first,loop,fresh,stronger=openai:gpt-5 --draws 3 --out trials/two
    refine label trials/two/answers.jsonl

    The same command goes on where a trial was stopped, and so does `refine resume`; arms and draws may be added.

    Exit code: 0 done, 1 no question could be answered, 2 bad input.
    """


@_command(_LOOPS, "label.run_label")
def _label(options: of.LabelOptions) -> None:
    """Label answers in the terminal, blind to the verdict.

    They come in random order, one in ten for two people. Keys: 1-4 rating, g good, b bad, n note, s skip, z
    undo, q quit. Every label is saved at once; the same command goes on where you stopped.

    \b
    refine label attempts.jsonl --by ann
    refine label sqlite:///record.db --split certify --next 60
    refine certify attempts.jsonl --labels attempts.labels.jsonl --out certificate.json

    Exit code: 0 labelled, 1 nothing is left to label, 2 bad input.
    """


@_command(_LOOPS, "trust.run_align")
def _align(options: of.AlignOptions) -> None:
    """Say how far a judge's verdicts agree with labels of people.

    A row holds what the judge said, {"rating": 3} or {"score": 0.8}, and what people say,
    {"labels": [{"by": "ann", "rating": 4}, {"by": "bob", "rating": 3}], "split": "certify"}.

    \b
    refine align labelled.jsonl
    refine align runs/1 --labels labels.jsonl --full
    refine align labelled.jsonl --certificate certificate.json --next to-label.jsonl

    Exit code: 0 reported, 2 bad input.
    """


@_command(_LOOPS, "judge_list.run_tune")
def _tune(options: of.TuneOptions) -> None:
    """Tune a judge by labels of people, and say whether it became better.

    It tries guidelines, examples and wordings on one half of the labels, and compares the best with the judge as
    it was on the other half, which no prompt has seen. Without a gain nothing is written but the report. The same
    command goes on where a crash stopped it. Labels that tuned a judge certify none.

    \b
    refine tune labelled.jsonl --judge helpfulness --model openai:gpt-5-mini
    refine tune attempts.jsonl --labels attempts.labels.jsonl --judge tone:tone=kind --budget 300 --model ...
    refine evaluate rows.jsonl --judge tuned/judges.toml

    Exit code: 0 improved, 1 no gain, 2 bad input.
    """


@_command(_LOOPS)
def _learn(options: of.LearnOptions) -> int:
    """Learn a cheap first level of a judge's verdicts.

    It decides alone where the verdicts that were recorded say that both levels together keep the agreement that is
    promised; "decides 0 %" is an answer. What it is not sure of, and what it would refuse, goes to the judge.

    \b
    refine learn attempts.jsonl
    refine learn sqlite:///record.db --agreement 0.98 --out first.json

    In judges.toml: use = "judges:first_level", file = "first.json", judge = "helpfulness".

    Exit code: 0 it decides some, 1 it decides nothing, 2 bad input.
    """
    _require(["sklearn"], "learn")
    from refine.cli.judge_list import run_learn

    return run_learn(options)


@_command(_LOOPS, "trust.run_certify")
def _certify(options: of.CertifyOptions) -> None:
    """Certify the success rating of a loop.

    Of the answers that pass, at most a share of --alpha is bad, with confidence 1 - --delta. Record the loop
    with success_rating=4 and the number of attempts that is deployed, and have people label what would be
    released, blind to the rating. SelfRefine(..., certificate="certificate.json") then sets the success
    rating, and refuses a certificate of another loop. That nothing is certified is an answer, too.

    Of a record it does all of that: in a terminal it asks for the labels that are missing, shows what was called
    bad to a second person (--by NAME), certifies, and says how the promise is watched.

    \b
    refine certify sqlite:///record.db
    refine certify attempts.jsonl --next to-label.jsonl
    refine certify attempts.jsonl --labels to-label.jsonl --alpha 0.1
    refine certify attempts.jsonl --labels to-label.jsonl --method anytime

    Exit code: 0 certified, 1 nothing is certified, 2 bad input.
    """


@_command(_LOOPS, "loops.run_replay")
def _replay(options: of.ReplayOptions) -> None:
    """Say what other policies would have made of recorded loops.

    Passes by attempt, gain per attempt, and thresholds, attempts and patience that were not in force.

    \b
    refine replay attempts.jsonl
    refine replay sqlite:///record.db --threshold 4 --max-attempts 2 --max-attempts 3
    refine replay attempts.jsonl --rejudge helpfulness --model openai:gpt-5-mini

    Exit code: 0 reported, 1 nothing is identified, 2 bad input.
    """


@_command(_LOOPS, "loops.run_monitor")
def _monitor(options: of.MonitorOptions) -> None:
    """Look whether a loop still does what it was certified to do.

    Labels in the record are audits: an alarm is due when more answers are bad than the certificate tolerates, or
    when the judge, the generator or the policy is not the certified one any more.

    \b
    refine monitor sqlite:///record.db --certificate certificate.json
    refine monitor attempts.jsonl --alpha 0.1 --watch
    refine monitor attempts.jsonl --canary canary.jsonl --judge helpfulness --model openai:gpt-5-mini

    Exit code: 0 no alarm, 1 an alarm, 2 bad input, 3 nothing can raise an alarm: no audits and no canary.
    """


@_command(_LOOPS, "loops.run_export")
def _export(options: of.ExportOptions) -> None:
    """Write recorded attempts as a dataset: JSON lines, .csv or .parquet.

    \b
    refine export sqlite:///record.db --out rows.jsonl
    refine export sqlite:///record.db --where passed=false --where since=7d --out rows.jsonl
    refine evaluate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --out runs/1

    Keys: passed, rating, stop_reason, refiner, model, judge, text, labelled (no, yes, disagree), since, until.
    A time is a date, 2026-11-22, or a time ago, 24h. The metadata of a row holds ids, rating and labels.

    Exit code: 0 written, 1 nothing to write, 2 bad input.
    """


@_command(_LOOPS, "loops.run_verify")
def _verify(options: of.VerifyOptions) -> None:
    """Say whether a record, or its export, is as it was written.

    Every outcome carries a hash of itself and of the one before: what is changed, dropped or put elsewhere shows.
    With a key in REFINE_RECORD_SEAL_KEY nobody without it can seal anew. --save-heads notes where the chains end;
    kept where nobody else writes, it shows later what was cut off.

    \b
    refine verify sqlite:///record.db
    refine verify rows.jsonl
    refine verify record.db --save-heads /safe/monday.json

    Exit code: 0 as it was written, 1 not, 2 bad input.
    """


_GUARD = "Guard a chatbot"
_NO_SETTINGS = frozenset({"action", "check", "config", "live", "no_record", "yes"})
"""Options of `refine serve` that are no settings of the guard."""

_SERVER = ("aiohttp", "prometheus_client", "pydantic_settings", "starlette", "uvicorn")


@_command(_GUARD)
def _serve(options: of.ServeOptions) -> int:
    """Guard a chatbot: serve answers that are judged beforehand.

    It stands in front of any OpenAI-compatible server and speaks as that does. Point the base URL of any
    client at it. A flag wins over the environment (REFINE_UPSTREAM, ...), and that over the file.

    \b
    refine serve init
    refine serve --config refine.toml --check
    refine serve --upstream https://api.openai.com/v1 --judge helpfulness --judge-model openai:gpt-5-mini

    Exit code: 2 wrong settings.
    """
    if options.no_record and options.record is not None:
        raise _error_exit(f"--no-record and --record {options.record} exclude each other; leave one out")
    _require(_SERVER, "server")
    from refine.server import running

    if options.action not in {None, "init"}:
        raise _error_exit(f"refine serve takes `init` or options, not {options.action!r}")
    if options.action == "init":
        file = options.config or Path("refine.toml")
        running.begin(file, is_asked=not options.yes, ask=lambda text, default: str(typer.prompt(text, default)))
        return 0
    flags = {name: value for name, value in asdict(options).items() if name not in _NO_SETTINGS}
    flags["record_texts"] = options.record_texts or None
    if options.no_record:
        flags["record"] = False
    running.serve(options.config, flags, check=options.check, live=options.live)
    return 0


_FOR_TOOLS = frozenset({"config", "http", "model", "root"})
"""Options of `refine mcp` that are no settings of the guard."""


@_command(_GUARD)
def _mcp(options: of.McpOptions) -> int:
    """Be the tools of a coding agent: serve the protocol MCP.

    judge, refine, find_judge, explain_run and next_to_label, over standard input and output.

    \b
    refine mcp
    refine mcp --config refine.toml --model gpt-5-mini
    refine mcp --config refine.toml --http --port 8001

    Exit code: 2 wrong settings.
    """
    _require((*_SERVER, "mcp"), "mcp")
    from refine.mcp_server import McpServer, serve_http, serve_stdio
    from refine.server.config import load_settings

    flags = {name: value for name, value in asdict(options).items() if name not in _FOR_TOOLS}
    tools = McpServer(settings=load_settings(options.config, flags), root=options.root, model=options.model)
    (serve_http if options.http else serve_stdio)(tools)
    return 0


@_command(_GUARD)
def _key(options: of.KeyOptions) -> int:
    """Make a key for `refine serve`.

    It is shown once, and the file gets its hash.
    """
    _require(_SERVER, "server")
    from refine.server.access import describe_new_key

    key_line, table = describe_new_key(options.name)
    typer.echo(f"{key_line}\n", err=True)
    typer.echo(table)
    return 0
