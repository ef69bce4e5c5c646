// One answer: its attempts downward, draft left and verdict right, with the labels of people.

import { post } from "./api.js";
import { diff } from "./diff.js";
import { h, problem, s, say } from "./dom.js";
import { dollars, fullTime, reason, seconds } from "./format.js";
import { markdown } from "./markdown.js";

// Two people who give no name are two people: each browser has a name of its own, so that no label replaces another's.
function me() {
  const known = localStorage.getItem("refine-labeller");
  if (known) return known;
  const name = `somebody ${Math.random().toString(36).slice(2, 8)}`;
  localStorage.setItem("refine-labeller", name);
  return name;
}

export function badge(rating, unscored) {
  if (rating) return h("span", { class: `badge r${rating}`, "aria-label": `rated ${rating} of 4` }, `${rating}`, h("small", {}, "/4"));
  return h("span", { class: "badge none", title: unscored ?? "not judged" }, unscored ? "?" : "–");
}

function items(list) {
  return h("ul", { class: "items" }, list.map((item) => h("li", {},
    h("span", { class: `mark ${item.passed === undefined ? "none" : item.passed ? "yes" : "no"}` },
      item.passed === undefined ? (item.unscored ?? "–") : item.passed ? "✓" : "✗"),
    h("span", {}, item.subject || item.judge || "part"),
    item.rationale && h("p", {}, item.rationale), item.items?.length > 0 && items(item.items))));
}

function steps(list) {
  return h("details", { class: "steps" }, h("summary", {}, `${list.length} tool messages`),
    list.map((step) => h("pre", {}, step.role === "tool" ? `→ ${step.content}` : (step.tool_calls ?? []).map((call) => `${call.name}(${JSON.stringify(call.args ?? {})})`).join("\n") || step.content)));
}

function likelihood(attempt) {
  if (attempt.p_pass === null || attempt.p_pass === undefined) return null;
  const list = attempt.probabilities ?? [];
  const said = `how likely each rating was: ${list.map((share, index) => `${index + 1}: ${(100 * share).toFixed(0)} %`).join(", ")}`;
  const bar = (share, index) => {
    const height = Math.max(1, 18 * share);
    return s("rect", { class: list.length === 4 ? `r${index + 1}` : "runscored", x: index * 12, y: 18 - height, width: 10, height });
  };
  return h("p", { class: "likelihood" },
    s("svg", { width: 12 * list.length, height: 18, viewBox: `0 0 ${12 * list.length} 18`, role: "img", "aria-label": said }, s("title", {}, said), list.map(bar)),
    h("small", {}, `passes with ${attempt.p_pass.toFixed(2)}, score ${attempt.score.toFixed(2)}`));
}

// Pieces of an answer that was released while it was judged: what went out when, and what was refused.
function piecesView(list) {
  return h("ol", { class: "pieces", "aria-label": "Pieces" }, list.map((piece) => {
    const said = piece.unscored ? `not judged: ${piece.unscored}` : piece.rating ? `rated ${piece.rating} of 4` : piece.passed === false ? "refused" : "";
    return h("li", { class: piece.released ? "out" : "kept" },
      h("p", {}, h("span", { class: `mark ${piece.released ? "yes" : "no"}` }, piece.released ? "✓" : "✗"), (piece.text ?? "text redacted").trim()),
      h("small", {}, [piece.released ? `released after ${seconds(piece.at_s ?? 0)}` : piece.judge ? "refused, not shown" : "dropped, not shown", said !== "refused" && said, !piece.released && piece.rationale].filter(Boolean).join(" · ")));
  }));
}

const WHO = ["key", "user", "session", "thread"];

const pieces = (attempt) => (attempt.items ?? []).filter((item) => item.released !== undefined);
const parts = (attempt) => (attempt.items ?? []).filter((item) => item.released === undefined);

function verdictOf(attempt) {
  return h("div", { class: "verdict" },
    h("p", { class: "who" }, badge(attempt.rating, attempt.unscored), h("span", {}, attempt.judge ?? "not judged"), attempt.judge_model && h("small", {}, attempt.judge_model)),
    attempt.unscored && h("p", { class: "unscored" }, `no rating: ${attempt.unscored}${attempt.verdict_detail ? `, ${attempt.verdict_detail}` : ""}`),
    likelihood(attempt),
    attempt.rationale && h("p", {}, attempt.rationale),
    parts(attempt).length > 0 && items(parts(attempt)),
    attempt.feedback && h("p", { class: "feedback" }, h("strong", {}, "Feedback "), attempt.feedback),
    attempt.judge_s !== undefined && h("small", { class: "spent" }, `${seconds(attempt.judge_s)} to judge`, attempt.judge_cost ? `, ${dollars(attempt.judge_cost)}` : ""));
}

function draftOf(attempt, before) {
  if (pieces(attempt).length > 0) return piecesView(pieces(attempt));
  if (attempt.draft === null || attempt.draft === undefined) return h("p", { class: "nothing" }, attempt.waiting ? "writing…" : "recorded without texts");
  const plain = textView(attempt.draft);
  if (!before?.draft || before.draft === attempt.draft) return plain;
  const spans = diff(before.draft, attempt.draft);
  const kept = spans.reduce((sum, piece) => sum + (typeof piece === "string" ? piece.length : 0), 0);
  const changes = h("div", { class: "text diff", hidden: true }, spans);
  const toggle = h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => {
    changes.hidden = !changes.hidden;
    plain.hidden = !plain.hidden;
    toggle.setAttribute("aria-pressed", String(!changes.hidden));
  } }, `Changes since attempt ${before.number}`);
  if (3 * kept > attempt.draft.length) toggle.click(); // of a text that is all new the changes say nothing
  return [toggle, changes, plain];
}

// A text set as Markdown where it is some, and as it was written at the press of a button.
function textView(text) {
  const set = markdown(text);
  if (!set) return h("div", { class: "text" }, text);
  const box = h("div", { class: "text set" }, set);
  const toggle = h("button", { type: "button", class: "small source", "aria-pressed": "false", onclick: () => {
    const written = toggle.getAttribute("aria-pressed") === "false";
    toggle.setAttribute("aria-pressed", String(written));
    box.classList.toggle("set", !written);
    box.replaceChildren(...(written ? [text] : [markdown(text)]));
  } }, "As written");
  return h("div", {}, box, toggle);
}

export function attemptView(attempt, before) {
  return h("article", { class: `attempt${attempt.released ? " released" : ""}`, "data-number": attempt.number, "aria-label": `Attempt ${attempt.number}` },
    h("header", {}, h("strong", {}, `Attempt ${attempt.number}`), attempt.kind && h("span", { class: "tag" }, attempt.kind), attempt.released && h("span", { class: "tag" }, "released"),
      h("small", {}, [attempt.model, attempt.generate_s !== undefined && seconds(attempt.generate_s), attempt.cost ? dollars(attempt.cost) : "",
        attempt.finish_reason && attempt.finish_reason !== "stop" && attempt.finish_reason].filter(Boolean).join(" · "))),
    h("div", { class: "draft" }, attempt.steps?.length > 0 && steps(attempt.steps), draftOf(attempt, before)), verdictOf(attempt));
}

function conversationOf(outcome) {
  const earlier = outcome.conversation ?? [];
  return earlier.length > 1 && h("details", { class: "earlier" }, h("summary", {}, `conversation, ${earlier.length} messages`),
    earlier.map((message) => h("p", {}, h("strong", {}, `${message.role} `), message.content)));
}

// What the input judge said of the question; a question that it refused has no attempt.
function questionVerdict(outcome) {
  if (!outcome.input_judge) return null;
  const tokens = (outcome.input_tokens_in ?? 0) + (outcome.input_tokens_out ?? 0);
  return h("div", { class: "of-question" },
    h("p", { class: "who" }, badge(outcome.input_rating, outcome.input_unscored), h("span", {}, `the question, by ${outcome.input_judge}`),
      outcome.stop_reason === "question_refused" && h("span", { class: "tag refused" }, "refused")),
    outcome.input_unscored && h("p", { class: "unscored" }, `no rating: ${outcome.input_unscored}`),
    outcome.input_rationale && h("p", {}, outcome.input_rationale),
    h("small", {}, [outcome.input_s !== null && `${seconds(outcome.input_s)} to judge`, tokens > 0 && `${tokens} tokens`].filter(Boolean).join(", ")));
}

function evidenceOf(outcome) {
  const evidence = Object.entries(outcome.evidence ?? {});
  return evidence.length > 0 && h("details", { class: "earlier" }, h("summary", {}, `evidence: ${evidence.map(([name]) => name).join(", ")}`),
    h("pre", {}, JSON.stringify(outcome.evidence, null, 2)));
}

function judgeAgain(outcome, record) {
  return `refine export '${record}' --where id=${outcome.id} --out rows.jsonl\nrefine evaluate rows.jsonl --judge ${outcome.judge || "helpfulness"} --out runs/again`;
}

const messagesOf = (outcome) => (outcome.conversation ?? [{ role: "user", content: outcome.question }]).map(({ role, content }) => ({ role, content }));
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

// The request as a command that asks the same again; the key is the caller's own.
function curl(outcome) {
  const body = JSON.stringify({ ...(outcome.model && { model: outcome.model }), messages: messagesOf(outcome) });
  const guard = outcome.refiner ? ` \\\n  -H ${quoted(`x-refine-guard: ${outcome.refiner}`)}` : "";
  return `curl ${quoted(`${location.origin}/v1/chat/completions`)} \\\n  -H "authorization: Bearer $API_KEY" -H 'content-type: application/json'${guard} \\\n  -d ${quoted(body)}`;
}

function traceLink(outcome, address) {
  if (!outcome.trace_id) return null;
  if (!/^https?:/.test(address ?? "")) return copyButton("Copy trace id", outcome.trace_id);
  return h("a", { class: "small", href: address.replace("{trace_id}", encodeURIComponent(outcome.trace_id)), target: "_blank", rel: "noreferrer" }, "Trace");
}

// What is recorded, as it is: what was asked, each attempt and verdict.
function rawOf(outcome) {
  const box = h("details", { class: "earlier raw" }, h("summary", {}, "raw exchange"));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(copyButton("Copy", JSON.stringify(outcome, null, 2)), h("pre", {}, JSON.stringify({ ...outcome, messages: outcome.question === null ? undefined : messagesOf(outcome) }, null, 2)));
  });
  return box;
}

// Labels on their way, which go out all the same when the page is left; numbered, as an earlier one may arrive after them.
const unsaved = new Map();
const PAGE = Math.random().toString(36).slice(2);
let turns = 0;
addEventListener("pagehide", () => {
  for (const label of unsaved.values()) post("/label", label, { keepalive: true }).catch(() => {});
});

// An open answer; keys go to `press`, which says whether it knew the key.
export class Detail {
  constructor(outcome, state, onLabelled) {
    const { record, traces } = state;
    this.traces = traces;
    this.outcome = outcome;
    this.onLabelled = onLabelled;
    const numbers = outcome.attempts.map((attempt) => attempt.number);
    this.number = numbers.includes(outcome.released) ? outcome.released : numbers.at(-1);
    this.element = h("div", { class: "detail" }, this.facts(record), conversationOf(outcome), evidenceOf(outcome), questionVerdict(outcome),
      outcome.attempts.map((attempt, index) => attemptView(attempt, outcome.attempts[index - 1])),
      outcome.answer && h("article", { class: "attempt released" }, h("header", {}, h("strong", {}, "Answer"), h("span", { class: "tag" }, "released")), textView(outcome.answer)), rawOf(outcome),
      this.bar = h("div", { class: "label-bar", role: "group", "aria-label": "Your label" }));
    this.element.addEventListener("click", (event) => {
      const attempt = event.target.closest?.("[data-number]");
      if (attempt && !event.target.closest("button, summary")) this.choose(Number(attempt.dataset.number));
    });
    this.saving = Promise.resolve();
    this.bar.hidden = this.number === undefined; // what has no attempt has nothing to label
    this.fillBar();
    this.draw();
  }

  facts(record) {
    const { outcome } = this;
    const link = `${location.origin}/?id=${encodeURIComponent(outcome.id)}`;
    return h("div", { class: "facts" },
      h("p", { class: "question" }, outcome.question ?? "recorded without texts"),
      outcome.question === null && h("p", {}, "To have them from now on: record_texts = true in the guard's configuration, texts=True in Python."),
      h("p", {}, [fullTime(outcome.at), reason(outcome.stop_reason), outcome.detail, outcome.refiner, outcome.model, `${seconds(outcome.latency_s)} in all`, outcome.cost !== null && dollars(outcome.cost), outcome.request_id].filter(Boolean).join(" · ")),
      WHO.some((name) => outcome[name]) && h("p", {}, WHO.filter((name) => outcome[name]).flatMap((name, at) =>
        [at ? " · " : "", `${name} `, h("a", { href: `/?${new URLSearchParams({ since: "", [name]: outcome[name] })}`, title: `all answers of this ${name}` }, outcome[name])])),
      h("p", {}, copyButton("Copy link", link), " ", outcome.question && copyButton("Copy as curl", curl(outcome)), " ", traceLink(outcome, this.traces), " ", outcome.question && copyButton("Judge again offline", judgeAgain(outcome, record))));
  }

  get canLabel() {
    return this.number !== undefined;
  }

  get own() {
    return this.outcome.labels.find((label) => label.by === me() && label.number === this.number) ?? {};
  }

  choose(number) {
    if (!this.outcome.attempts.some((attempt) => attempt.number === number)) return;
    this.number = number;
    this.draw();
  }

  // The label bar is made once and then only changed, so that nobody's typing is interrupted.
  fillBar() {
    const button = (name, title, press, rating) => h("button", { type: "button", class: rating ? `rate r${rating}` : undefined, "aria-label": title, title, onclick: press }, name);
    this.title = h("span");
    this.rates = [1, 2, 3, 4].map((rating) => button(String(rating), `rate ${rating} of 4`, () => this.rate(rating), rating));
    this.up = button("▲", "thumb up (u)", () => this.thumb(true));
    this.down = button("▼", "thumb down (d)", () => this.thumb(false));
    this.note = h("input", { type: "text", "aria-label": "Note", placeholder: "note (n)", maxlength: 2000, onchange: () => this.save({ note: this.note.value.trim() || null }) });
    const by = h("input", { type: "text", class: "by", "aria-label": "Your name", value: me(), maxlength: 60,
      onchange: () => { localStorage.setItem("refine-labeller", by.value.trim()); by.value = me(); this.draw(); } });
    this.others = h("small");
    this.bar.append(this.title, ...this.rates, this.up, this.down, this.note, h("span", { class: "as" }, "as"), by, this.others);
  }

  draw() {
    const own = this.own;
    for (const article of this.element.querySelectorAll("[data-number]")) article.classList.toggle("chosen", this.outcome.attempts.length > 1 && Number(article.dataset.number) === this.number);
    this.title.textContent = `Your label of attempt ${this.number}`;
    this.rates.forEach((button, index) => button.setAttribute("aria-pressed", String(own.rating === index + 1)));
    this.up.setAttribute("aria-pressed", String(own.up === true));
    this.down.setAttribute("aria-pressed", String(own.up === false));
    if (document.activeElement !== this.note) this.note.value = own.note ?? "";
    this.others.textContent = this.outcome.labels.filter((label) => label !== own).map((label) =>
      `${label.by}: ${[label.rating && `${label.rating} of 4`, label.up === true && "thumb up", label.up === false && "thumb down", label.note].filter(Boolean).join(", ")} (attempt ${label.number})`).join("; ");
  }

  rate(rating) {
    return this.save({ rating: this.own.rating === rating ? null : rating });
  }

  thumb(up) {
    return this.save({ up: this.own.up === up ? null : up });
  }

  async save(change) {
    const { rating = null, up = null, note = null } = { ...this.own, ...change };
    const label = { outcome: this.outcome.id, number: this.number, by: me(), rating, up, note };
    const before = this.outcome.labels;
    this.outcome.labels = before.filter((other) => other.by !== label.by || other.number !== label.number);
    if (rating || up !== null || note) this.outcome.labels.push(label);
    this.draw();
    const place = `${label.outcome} ${label.number}`;
    const numbered = { ...label, page: PAGE, turn: ++turns };
    unsaved.set(place, numbered);
    try {
      await (this.saving = this.saving.catch(() => {}).then(() => post("/label", numbered)));
    } catch (error) {
      this.outcome.labels = before;
      this.draw();
      problem(error);
      return;
    } finally {
      if (unsaved.get(place) === numbered) unsaved.delete(place);
    }
    say(rating ? `labelled ${rating} of 4` : up === null ? "label changed" : up ? "thumb up" : "thumb down");
    this.onLabelled(this.outcome, change);
  }

  press(key) {
    if (!this.canLabel) return false;
    if (/^[1-4]$/.test(key)) this.rate(Number(key));
    else if (key === "u" || key === "d") this.thumb(key === "u");
    else if (key === "n") this.note.focus();
    else if (key === "[" || key === "]") this.choose(this.number + (key === "]" ? 1 : -1));
    else return false;
    return true;
  }
}

export function copyButton(name, text) {
  const button = h("button", { type: "button", class: "small", title: text, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const box = h("textarea", { class: "copy", rows: text.split("\n").length, readonly: true, "aria-label": name }, text);
      button.replaceWith(box);
      box.select();
    }
  } }, name);
  return button;
}
