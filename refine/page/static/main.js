// The page: status, filter, figures, charts, and the list of answers with one of them open.

import { blob, get, lines, Refused, setKey } from "./api.js";
import * as charts from "./charts.js";
import { badge, copyButton, Detail } from "./detail.js";
import { byId, h, problem, say } from "./dom.js";
import * as filters from "./filter.js";
import { count, dollars, fullTime, reason, seconds, time } from "./format.js";
import { TryOut } from "./tryout.js";

const PAGE = 50;
const FIGURES_EVERY_MS = 15_000;
const REVIEWS = [["no", "without a label"], ["disagree", "people and judge differ"]];

const ORDERS = [["newest", "newest first"], ["slowest", "slowest first"], ["worst", "worst rated first"], ["attempts", "most attempts first"], ["dearest", "dearest first"]];

const state = { ...filters.fromAddress(), order: "newest", rows: [], open: null, paused: false, held: [], more: false, texts: true, choices: {}, record: "", at: -1 };
let looking = null, tryOut = null, failing = false, figuresAt = 0, reviewed = 0;

const where = () => filters.asQuery(state.review ? { ...state.filter, labelled: state.review } : state.filter);
const list = () => byId("list");

async function attempt(action) {
  try {
    await action();
    problem(null);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Refused && error.status === 401) askKey();
    else problem(error);
  }
}

function askKey() {
  looking?.abort();
  const input = h("input", { type: "password", "aria-label": "Page key", placeholder: "page key", autocomplete: "off" });
  const enter = () => { setKey(input.value.trim()); problem(null); start(); };
  input.addEventListener("keydown", (event) => event.key === "Enter" && enter());
  const box = byId("problem");
  box.replaceChildren(h("span", {}, "This page has a key of its own. "), input, " ", h("button", { type: "button", onclick: enter }, "Open"));
  box.hidden = false;
  input.focus();
}

function drawStatus(status) {
  const guards = (status.guards ?? []).map((guard) => `${guard.name}${guard.upstream ? ` → ${guard.upstream}` : ""}${guard.judge ? `, judged by ${guard.judge}` : ""}`);
  const { lost, queued, failing } = status.record;
  const promised = (status.guards ?? []).filter((guard) => guard.promise);
  const kind = failing || lost || promised.some((guard) => guard.promise_state === "withdrawn") ? "bad" : status.draining ? "wait" : state.paused ? "wait" : "good";
  byId("status").replaceChildren(...[
    h("span", { class: `dot ${kind}` }), h("span", {}, status.draining ? "draining" : state.paused ? "paused" : "live"),
    guards.length > 0 && h("span", { class: "guards", title: guards.join("\n") }, guards.length === 1 ? guards[0] : `${guards.length} guards`),
    ...promised.map((guard) => h("span", { class: `promise ${guard.promise_state}`, title: guard.promise }, `${promised.length > 1 ? `${guard.name}: ` : ""}promise ${{ holds: "holds", stricter: "holds, stricter", withdrawn: guard.uncovered ? "withdrawn, answers go on uncovered" : "withdrawn, no answers" }[guard.promise_state]}`)),
    status.in_flight !== undefined && h("span", {}, `${status.in_flight} in flight`),
    failing && h("strong", { class: "lost", title: failing }, `record fails, ${count(queued)} wait`),
    lost > 0 && h("strong", { class: "lost" }, `${count(lost)} lost`),
    !lost && !failing && h("span", { class: "quiet" }, "none lost"),
  ].filter(Boolean));
  Object.assign(state, { texts: status.record.texts || state.rows.some((row) => row.question), record: status.record.name });
}

function rowView(row) {
  const mark = row.passed ? "yes" : ["skipped", "passed_through"].includes(row.stop_reason) ? "none" : "no";
  const head = h("button", { type: "button", class: "head", "aria-expanded": "false", onclick: () => toggle(row.id) },
    h("span", { class: `mark ${mark}`, title: reason(row.stop_reason) }, mark === "yes" ? "✓" : mark === "no" ? "✗" : "–"),
    badge(row.rating ?? (row.attempts ? null : row.input_rating)), h("span", { class: "words" }, row.question || (row.attempts ? "" : row.detail) || `${row.refiner || "answer"} ${row.id.slice(0, 8)}`),
    h("span", { class: "end" }, row.passed ? "" : reason(row.stop_reason)),
    row.labels > 0 && h("span", { class: "tag" }, "labelled"),
    h("span", { class: "pips", title: `${row.attempts} attempts`, "aria-label": `${row.attempts} attempts` }, "●".repeat(Math.min(row.attempts, 6))),
    h("span", { class: "took" }, state.order === "dearest" ? dollars(row.cost) : seconds(row.latency_s)), h("time", { datetime: new Date(row.at).toISOString(), title: fullTime(row.at) }, time(row.at)));
  return h("li", { "data-id": row.id }, head);
}

function drawList() {
  document.body.classList.toggle("in-review", Boolean(state.review));
  const review = state.review && h("div", { class: "card reviewing" }, h("strong", {}, "Review"),
    h("select", { "aria-label": "What to review", onchange: (event) => change({ review: event.target.value }) }, REVIEWS.map(([value, text]) => h("option", { value, selected: value === state.review }, text))),
    h("strong", { id: "reviewed" }, `${reviewed} labelled`), h("span", {}, `rate with 1–4 or u and d, Enter for the next, Esc to end`));
  const order = state.rows.length > 1 && h("p", { class: "order" }, h("select", { "aria-label": "Order of the answers", onchange: (event) => { state.order = event.target.value; attempt(reloadList); } },
    ORDERS.map(([value, text]) => h("option", { value, selected: value === state.order }, text))));
  list().dataset.order = state.order;
  list().replaceChildren(...[review, order,
    h("ol", { class: "rows" }, state.rows.map(rowView)),
    state.rows.length === 0 && h("p", { class: "nothing" }, state.review ? "Nothing left to review." : "No answers yet. They appear here as they are given."),
    state.more && h("button", { type: "button", class: "load", onclick: () => attempt(older) }, "Older answers")].filter(Boolean));
}

const query = (limit) => ({ ...where(), limit, ...(state.order !== "newest" && { order: state.order }) });
const element = (id) => [...list().querySelectorAll("li")].find((row) => row.dataset.id === id);

async function older() {
  const last = state.rows.at(-1);
  const after = state.order === "newest" ? { before_at: last.at, before_id: last.id } : { skip: state.rows.length };
  const rows = await get("/outcomes", { ...query(PAGE), ...after });
  state.rows.push(...rows);
  state.more = rows.length === PAGE;
  list().querySelector("ol").append(...rows.map(rowView));
  if (!state.more) list().lastElementChild.remove();
}

function close() {
  if (!state.open) return;
  const row = element(state.open.outcome.id);
  row?.querySelector(".head").setAttribute("aria-expanded", "false");
  state.open.element.remove();
  state.open = null;
}

async function toggle(id) {
  const was = state.open?.outcome.id;
  close();
  state.id = was === id ? null : id;
  filters.toAddress(state.filter, state.id, state.review);
  if (state.id) await attempt(() => open(id));
}

async function open(id) {
  const outcome = await get(`/outcomes/${encodeURIComponent(id)}`);
  if (state.id !== id || state.open?.outcome.id === id) return; // somebody closed or opened it meanwhile
  let row = element(id);
  if (!row) {
    row = rowView({ ...outcome, attempts: outcome.attempts.length, labels: outcome.labels.length });
    list().querySelector("ol").prepend(row);
    state.rows.unshift({ ...outcome, attempts: outcome.attempts.length, labels: outcome.labels.length });
  }
  close();
  state.open = new Detail(outcome, state, labelled);
  state.at = state.rows.findIndex((other) => other.id === id);
  row.querySelector(".head").setAttribute("aria-expanded", "true");
  row.append(state.open.element);
  row.scrollIntoView({ block: "nearest" });
}

function labelled(outcome, changed) {
  const row = state.rows.find((other) => other.id === outcome.id);
  const before = row?.labels;
  if (row) row.labels = outcome.labels.length;
  if (!before && outcome.labels.length) reviewed += 1;
  if (state.review) byId("reviewed").textContent = `${reviewed} labelled`;
  if (state.review && (changed.rating || changed.up !== undefined)) setTimeout(() => next(1), 250);
}

function next(step) {
  if (!state.rows.length) return;
  const at = Math.min(Math.max(state.at + step, 0), state.rows.length - 1);
  if (at === state.at && state.review) { say("the end of the review"); return; }
  state.at = at;
  const { id } = state.rows[at];
  if (state.open || state.review) { if (state.id !== id) toggle(id); }
  element(id)?.querySelector(".head").focus();
}

async function drawFigures() {
  figuresAt = Date.now();
  state.figures = await get("/figures", where());
  byId("figures").replaceChildren(...charts.figuresRow(state.figures));
  drawCharts();
  await Promise.all([drawBenefit(), drawGroups(), drawBeside()]);
}

// People's labels lead: what the judge thinks of its own loop proves nothing.
async function drawBenefit() {
  const { headline, effect, entries } = await get("/benefit", where());
  byId("benefit").hidden = !state.figures.outcomes;
  byId("benefit").replaceChildren(h("summary", { class: effect === "helps" ? "good" : effect === "harms" ? "bad" : "" }, headline),
    h("dl", {}, entries.map(([label, text]) => [h("dt", {}, label), h("dd", {}, text)])));
}

// Draw each chart as wide as its column is, so that its text has the size of other text.
function drawCharts() {
  if (!byId("charts").checkVisibility()) return;
  byId("charts").classList.toggle("three", !charts.hasCost(state.figures)); // first, as it decides how wide columns are
  const columns = getComputedStyle(byId("charts")).gridTemplateColumns.split(" ").map((width) => Math.floor(parseFloat(width)) - 32);
  const inColumn = (index) => Math.max(columns[index % columns.length], 160);
  const { figures } = state;
  const zoom = (chart) => charts.zoomable(chart, figures.series, (since, until) => changeFilter({ ...state.filter, since: String(since), until: String(until) }));
  byId("charts").replaceChildren(zoom(charts.passing(figures, inColumn(0))), charts.ratings(figures), zoom(charts.latency(figures, inColumn(2))),
    ...(charts.hasCost(figures) ? [zoom(charts.cost(figures, inColumn(3)))] : []));
}

const GROUPS = [["refiner", "guard"], ["key", "key"], ["user", "user"], ["session", "session"], ["model", "model"], ["judge", "judge"], ["stop_reason", "end"]];
const groups = { by: "refiner", sorted: ["outcomes", true], rows: [] };

async function drawGroups() {
  const box = byId("groups");
  if (!box.firstChild) {
    box.append(h("summary", {}, "By ", h("select", { "aria-label": "group by", onclick: (event) => event.stopPropagation(), onchange: (event) => { groups.by = event.target.value; box.open = true; attempt(drawGroups); } },
      GROUPS.map(([value, text]) => h("option", { value }, text)))), h("div", {}));
    box.addEventListener("toggle", () => box.open && attempt(drawGroups));
    box.open = innerWidth > 860;
  }
  if (!box.open) return;
  Object.assign(groups, await get("/table", { ...where(), by: groups.by }));
  sortGroups(groups.sorted);
}

function sortGroups(sorted) {
  groups.sorted = sorted;
  byId("groups").lastChild.replaceChildren(groups.rows.length
    ? charts.table(groups.rows, sorted, sortGroups, (name) => changeFilter({ ...state.filter, [groups.by]: name })) : h("p", { class: "nothing" }, "nothing yet"),
    ...charts.counted(groups.newest_since));
}

// What the figures are put beside: the time before, as long as the one that is shown, or another guard.
const beside = { with: "" };

function besides() {
  const { since, until } = state.filter;
  const [from, to] = filters.range(since, until);
  const guards = (state.choices.refiner ?? []).filter((name) => name !== state.filter.refiner);
  return [...(from ? [["", filters.isOwn(state.filter) ? "the time before" : `${filters.nameOf(since).replace("last", "the")} before`, { since: String(2 * from - to), until: String(from) }]] : []),
    ...guards.map((name) => [`guard ${name}`, `guard ${name}`, { refiner: name }])];
}

async function drawBeside() {
  const box = byId("beside"), choices = besides();
  box.hidden = !choices.length || !state.figures.outcomes;
  if (box.hidden) return;
  const chosen = choices.find(([value]) => value === beside.with) ?? choices[0];
  box.replaceChildren(h("summary", {}, "Beside ", h("select", { "aria-label": "put beside", onclick: (event) => event.stopPropagation(), onchange: (event) => { beside.with = event.target.value; box.open = true; attempt(drawBeside); } },
    choices.map(([value, text]) => h("option", { value, selected: value === chosen[0] }, text)))), h("div", {}));
  box.ontoggle = () => box.open && box.lastChild.childElementCount === 0 && attempt(drawBeside);
  if (!box.open) return;
  const other = await get("/figures", filters.asQuery({ ...state.filter, ...chosen[2] }));
  const own = state.filter.refiner ? `guard ${state.filter.refiner}` : chosen[2].refiner ? "all guards" : filters.nameOf(state.filter.since);
  box.lastChild.replaceChildren(charts.sideBySide([own, state.figures], [chosen[1], other]));
}

function changeFilter(filter) {
  change({ filter });
  filters.draw(byId("filter"), state.filter, state.choices, state.texts, changeFilter);
}

async function reloadList() {
  state.rows = await get("/outcomes", query(PAGE));
  const latest = Math.max(state.latest ?? 0, ...state.rows.map((row) => row.at));
  Object.assign(state, { held: [], more: state.rows.length === PAGE, open: null, at: -1, latest });
  drawList();
}

async function reload() {
  await reloadList();
  await drawFigures();
  const first = state.review && !state.id ? state.rows[0]?.id : state.id;
  if (first) { state.id = first; await open(first); }
}

async function look() {
  looking?.abort();
  const mine = looking = new AbortController();
  while (!mine.signal.aborted) {
    try {
      for await (const update of lines("/live", { query: where(), signal: mine.signal })) {
        drawStatus(update.status);
        if (update.error || failing) problem(update.error ? new Error(update.error) : null);
        failing = Boolean(update.error);
        receive(update.outcomes ?? []);
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) { askKey(); return; }
      byId("status").replaceChildren(h("span", { class: "dot bad" }), h("span", {}, "no connection; trying again"));
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function receive(rows) {
  const known = new Set(state.rows.map((row) => row.id));
  const oldest = state.order !== "newest" ? state.latest + 1 : state.more ? state.rows.at(-1).at : 0;
  if (state.filter.until) return; // a time that is over
  const fresh = rows.filter((row) => !known.has(row.id) && row.at >= oldest);
  if (!fresh.length) return;
  if (Date.now() - figuresAt > FIGURES_EVERY_MS) attempt(drawFigures);
  if (state.review) return;
  if (state.paused || state.order !== "newest") {
    state.held = [...new Set([...state.held, ...fresh.map((row) => row.id)])];
    drawHeld();
    return;
  }
  for (const row of fresh) insert(row);
  list().querySelector(":scope > .nothing")?.remove();
}

// Put a new answer where its time belongs; one may be written later than one that was given after it.
function insert(row) {
  const at = state.rows.findIndex((other) => other.at < row.at);
  const view = rowView(row);
  view.classList.add("fresh");
  if (at < 0) list().querySelector("ol").append(view);
  else element(state.rows[at].id).before(view);
  state.rows.splice(at < 0 ? state.rows.length : at, 0, row);
  if (at >= 0 && at <= state.at) state.at += 1;
}

function drawHeld() {
  const button = h("button", { type: "button", class: "load held", onclick: () => attempt(reload) }, `Show ${state.held.length} new`);
  const old = list().querySelector(".held");
  if (old) old.replaceWith(button);
  else list().prepend(button);
}

function change({ filter = state.filter, review = state.review }) {
  Object.assign(state, { filter, review, id: null });
  if (!review) reviewed = 0;
  byId("review").setAttribute("aria-pressed", String(Boolean(review)));
  filters.toAddress(filter, null, review);
  drawExport();
  attempt(reload).then(look);
}

function drawExport() {
  const words = Object.entries(where()).map(([name, value]) => `--where ${name}='${value.replaceAll("'", "’")}'`);
  const command = ["refine export", `'${state.record}'`, ...words, "--out rows.jsonl"].join(" ");
  byId("export").replaceChildren(h("button", { type: "button", class: "small", onclick: () => attempt(download) }, "Export as a dataset"), " ", copyButton("Copy the command", command));
}

async function download() {
  const address = URL.createObjectURL(await blob("/export", where()));
  h("a", { href: address, download: "rows.jsonl" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function pause() {
  state.paused = !state.paused;
  byId("pause").setAttribute("aria-pressed", String(state.paused));
  byId("pause").textContent = state.paused ? "Go on" : "Pause";
  say(state.paused ? "paused" : "live");
  if (!state.paused) attempt(reload);
}

const ACTIONS = {
  j: () => next(1), ArrowDown: () => next(1), k: () => next(-1), ArrowUp: () => next(-1),
  r: () => byId("review").click(), t: () => tryOut && byId("try").click(), p: pause,
  "/": () => byId("filter").elements.text.focus(),
  Escape: () => (state.review ? change({ review: null }) : state.open && toggle(state.id)),
  Enter: () => (state.review ? next(1) : state.rows[state.at] && toggle(state.rows[state.at].id)),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest?.("input, textarea, select");
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const onButton = event.target.closest?.("button, summary, a") && !(state.review && event.target.closest(".head"));
  if ((event.key === "Enter" || event.key === " ") && onButton) return;
  if (state.open?.press(event.key)) event.preventDefault();
  else if (ACTIONS[event.key]) { ACTIONS[event.key](); event.preventDefault(); }
});

async function start() {
  await attempt(async () => {
    const status = await get("/status");
    Object.assign(state, { choices: status.choices, traces: status.trace_url, texts: status.record.texts });
    drawStatus(status);
    filters.draw(byId("filter"), state.filter, state.choices, status.record.texts, changeFilter);
    byId("try").hidden = !status.can_try;
    if (status.can_try) tryOut = new TryOut(byId("tryout"), status.guards ?? [], status.choices.model);
    byId("review").setAttribute("aria-pressed", String(Boolean(state.review)));
    drawExport();
    await reload();
    look();
  });
}

let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => state.figures && drawCharts(), 150); });
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("review").addEventListener("click", () => change({ review: state.review ? null : "no" }));
byId("try").addEventListener("click", () => tryOut?.toggle());
byId("pause").addEventListener("click", pause);
document.title = `refine · ${location.host}`;
start();
