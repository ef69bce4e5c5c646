// The table of all rows: filter, search, sort and the row that is chosen, all of them in the address.
// Every text of the data becomes a text node; none is ever read as markup.

const ROW = 34, HEAD = 35, BEYOND = 8, MOST_BESIDE = 4;
const byId = (id) => document.getElementById(id);
const index = JSON.parse(byId("index").textContent);
const portions = [...document.querySelectorAll("script.portion")];
const { judges, runs, rows, questions, labels, cells, groups } = index;
const pair = runs.length > 1, last = runs.length - 1;

const read = [], texts = [];
const state = { q: "", judge: "", verdict: "", sort: "", row: "", groups: {} };
let order = rows.map((_, place) => place);

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const count = (n) => n.toLocaleString("en");
const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
const words = (code) => String(code).replaceAll("_", " ");
const figure = (score) => (score === null || score === undefined ? "–" : score.toFixed(2));

function details(place) {
  const portion = Math.floor(place / index.portion);
  read[portion] ??= JSON.parse(portions[portion].textContent);
  return read[portion][place % index.portion];
}

function* strings(value) {
  if (typeof value === "string") yield value;
  else if (value && typeof value === "object") for (const inner of Object.values(value)) yield* strings(inner);
}

const textOf = (place) => (texts[place] ??= `${rows[place]}\n${questions[place]}\n${[...strings(details(place))].join("\n")}`.toLowerCase());

// What a row is with a judge: these are the choices of the filter.
const change = (judge, place) => {
  const [before, after] = cells[judge].map((cell) => cell.score[place]);
  return typeof before === "number" && typeof after === "number" ? after - before : null;
};
const now = (judge) => cells[judge][last];
const kinds = {
  failed: ["not passed", (judge, place) => now(judge).passed[place] === 0],
  passed: ["passed", (judge, place) => now(judge).passed[place] === 1],
  unscored: ["unscored", (judge, place) => now(judge).unscored[place] !== null],
  ...Object.fromEntries([1, 2, 3, 4].map((rating) => [`r${rating}`, [`rated ${rating}`, (judge, place) => now(judge).rating[place] === rating]])),
  ...(pair && { fell: ["fell", (judge, place) => change(judge, place) < 0], rose: ["rose", (judge, place) => change(judge, place) > 0] }),
  ...(labels.length && {
    labelled: ["labelled", (_, place) => labels[place] !== ""],
    differs: ["judge and people differ", (judge, place) => labels[place] !== "" && now(judge).passed[place] !== null && (labels[place] === "good") !== (now(judge).passed[place] === 1)],
  }),
};

function chosen() {
  const asked = state.judge === "" ? judges.map((_, judge) => judge) : [judges.indexOf(state.judge)];
  const terms = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const is = kinds[state.verdict]?.[1];
  const inGroups = Object.entries(state.groups).filter(([, value]) => value !== null);
  const places = [];
  for (let place = 0; place < rows.length; place += 1) {
    if (is && !asked.some((judge) => is(judge, place))) continue;
    if (inGroups.some(([column, value]) => groups[column][place] !== value)) continue;
    if (terms.length && !terms.every((term) => textOf(place).includes(term))) continue;
    places.push(place);
  }
  return sorted(places);
}

function sorted(places) {
  const [key, direction] = state.sort.split(":");
  const sign = direction === "down" ? -1 : 1;
  const judge = judges.indexOf(key);
  if (judge < 0) return key === "row" && sign < 0 ? places.reverse() : places;
  const value = pair ? (place) => change(judge, place) : (place) => now(judge).score[place];
  const none = (one) => one === null || one === undefined;
  return places.sort((a, b) => {
    const one = value(a), other = value(b);
    if (none(one) || none(other)) return none(one) - none(other) || a - b;
    return sign * (one - other) || a - b;
  });
}

// The address holds it all, so that a link leads to the same rows.
function fromAddress() {
  const hash = location.hash.slice(1);
  if (hash && !hash.includes("=")) return false;
  const query = new URLSearchParams(hash);
  const known = (name, choices) => (choices.includes(query.get(name)) ? query.get(name) : "");
  state.q = query.get("q") ?? "";
  state.judge = known("judge", judges);
  state.verdict = known("verdict", Object.keys(kinds));
  state.sort = query.get("sort") ?? "";
  state.row = query.get("row") ?? "";
  state.groups = Object.fromEntries(Object.keys(groups).map((column) => [column, query.get(`in.${column}`)]));
  return true;
}

function toAddress() {
  const query = new URLSearchParams();
  for (const name of ["q", "judge", "verdict", "sort", "row"]) if (state[name] !== "") query.set(name, state[name]);
  for (const [column, value] of Object.entries(state.groups)) if (value !== null) query.set(`in.${column}`, value);
  const text = query.toString();
  history.replaceState(null, "", text ? `#${text}` : "#rows");
}

function select(name, label, value, options, onchange) {
  return h("select", { "aria-label": label, name, onchange: (event) => { onchange(event.target.value); apply(); } },
    options.map(([key, text]) => { const option = h("option", { value: key }, text); option.selected = key === value; return option; }));
}

let waiting = 0;
function drawFilter() {
  const search = h("input", { type: "search", placeholder: "Search in all texts", "aria-label": "Search in all texts", oninput: (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.q = event.target.value; apply(); }, 150);
  } });
  search.value = state.q;
  byId("filter").replaceChildren(search,
    ...(judges.length > 1 ? [select("judge", "Judge", state.judge, [["", "any judge"], ...judges.map((name) => [name, name])], (value) => { state.judge = value; })] : []),
    select("verdict", "Verdict", state.verdict, [["", "any verdict"], ...Object.entries(kinds).map(([key, [text]]) => [key, text])], (value) => { state.verdict = value; }),
    ...Object.entries(groups).map(([column, values]) => {
      const all = [...new Set(values)].sort();
      const at = state.groups[column] === null || state.groups[column] === undefined ? "" : `=${state.groups[column]}`;
      return select(column, column, at, [["", `any ${column}`], ...all.map((value) => [`=${value}`, value || "(none)"])], (value) => { state.groups[column] = value === "" ? null : value.slice(1); });
    }),
    h("button", { type: "button", onclick: () => { Object.assign(state, { q: "", judge: "", verdict: "", sort: "", groups: Object.fromEntries(Object.keys(groups).map((column) => [column, null])) }); drawFilter(); apply(); } }, "Clear"));
}

const grid = { body: null, space: null, lines: new Map(), at: 0 };

function drawGrid() {
  const [width, asked] = pair ? [118, 180] : [84, 110];
  const columns = ["46px", `minmax(${asked}px, 1fr)`, ...(labels.length ? ["56px"] : []), ...judges.map(() => `${width}px`)];
  const heads = [["row", "row"], ["", "question"], ...(labels.length ? [["", "label"]] : []), ...judges.map((name) => [name, name])];
  grid.names = h("div", { role: "row", class: "line names", "aria-rowindex": 1 }, heads.map(([key, name]) =>
    h("div", { role: "columnheader", "data-key": key, title: name }, key ? h("button", { type: "button", onclick: () => sortBy(key) }, name) : name)));
  grid.space = h("div", { class: "space", role: "presentation" });
  grid.body = h("div", { class: "body", role: "rowgroup", onscroll: () => requestAnimationFrame(drawLines) }, grid.names, grid.space);
  const table = h("div", { role: "grid", tabindex: 0, "aria-label": "All rows; arrow keys choose one, Enter reads it", "aria-colcount": heads.length, onkeydown: onKey }, grid.body);
  grid.table = table;
  byId("grid").replaceChildren(table);
  byId("grid").style.setProperty("--columns", columns.join(" "));
  byId("grid").style.setProperty("--least", `${28 + 46 + 10 + asked + (labels.length ? 66 : 0) + judges.length * (width + 10)}px`);
  document.querySelector(".split").classList.toggle("many", judges.length > MOST_BESIDE || pair);
}

function sortBy(key) {
  const next = { "": ":up", up: ":down", down: "" };
  const [name, direction = ""] = state.sort.split(":");
  const step = next[name === key ? direction : ""];
  state.sort = step ? key + step : "";
  apply();
}

function badge(judge, place) {
  const cell = (side) => {
    const { score, rating, unscored } = cells[judge][side];
    if (unscored[place]) return h("span", { class: "badge runscored", title: words(unscored[place]) }, "none");
    return score[place] === null ? null : h("span", { class: `badge r${rating[place]}` }, figure(score[place]));
  };
  const sides = runs.map((_, side) => cell(side));
  if (!pair) return h("div", { role: "gridcell" }, sides);
  const step = change(judge, place);
  return h("div", { role: "gridcell", title: step === null ? "" : `${step > 0 ? "+" : ""}${step.toFixed(3)}` }, sides[0] ?? "–", step > 0 ? " ↑ " : step < 0 ? " ↓ " : " → ", sides[1] ?? "–");
}

function line(at) {
  const place = order[at];
  const element = h("div", { role: "row", id: `line-${place}`, class: "line", "aria-rowindex": at + 2, "aria-selected": String(at === grid.at), onclick: () => choose(at) },
    h("div", { role: "gridcell", class: "at" }, rows[place]), h("div", { role: "gridcell" }, questions[place] || "–"),
    labels.length > 0 && h("div", { role: "gridcell", class: labels[place] }, labels[place]), judges.map((_, judge) => badge(judge, place)));
  element.style.transform = `translateY(${at * ROW}px)`;
  return element;
}

function drawLines() {
  const { body, space } = grid;
  const first = Math.max(0, Math.floor(body.scrollTop / ROW) - BEYOND);
  const end = Math.min(order.length, Math.ceil((body.scrollTop + body.clientHeight) / ROW) + BEYOND);
  const lines = [];
  for (let at = first; at < end; at += 1) lines.push(line(at));
  space.replaceChildren(...lines);
}

function choose(at, { quiet = false } = {}) {
  grid.at = Math.min(Math.max(at, 0), order.length - 1);
  const { body, table } = grid;
  const top = grid.at * ROW;
  if (top < body.scrollTop) body.scrollTop = top;
  else if (top + ROW + HEAD > body.scrollTop + body.clientHeight) body.scrollTop = top + ROW + HEAD - body.clientHeight;
  drawLines();
  if (!order.length) { table.removeAttribute("aria-activedescendant"); byId("detail").replaceChildren(); return; }
  const place = order[grid.at];
  table.setAttribute("aria-activedescendant", `line-${place}`);
  byId("detail").replaceChildren(...detail(place));
  byId("detail").scrollTop = 0;
  if (!quiet) { state.row = String(rows[place]); toAddress(); }
}

function onKey(event) {
  const page = Math.max(1, Math.floor((grid.body.clientHeight - HEAD) / ROW) - 1);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.target !== grid.table) return;
  if (event.key in steps) choose(Math.max(-1, Math.min(order.length, grid.at + steps[event.key])));
  else if (event.key === "Enter") byId("detail").focus();
  else return;
  event.preventDefault();
}

const text = (value) => h("p", { class: "text" }, value);
const more = (name, ...inner) => h("details", {}, h("summary", {}, name), inner);
const said = (messages) => messages.map(([role, value]) => [h("h4", {}, role), text(value)]);

function verdict(name, one) {
  const shown = one.unscored ? words(one.unscored) : `${figure(one.score)}${one.value === undefined ? "" : ` ${one.value}`} ${one.passed ? "passed" : "not passed"}`;
  return h("div", { class: "verdict" },
    h("p", { class: "who" }, h("strong", {}, name), h("span", { class: `badge ${one.unscored ? "runscored" : `r${one.rating}`}` }, shown)),
    one.rationale && one.rationale !== one.feedback && h("p", {}, one.rationale), one.feedback && h("p", { class: "feedback" }, one.feedback), one.detail && h("p", { class: "detail soft" }, one.detail),
    one.raw && more("reply that could not be read", text(one.raw)),
    one.items && h("ul", { class: "items" }, one.items.map(item)));
}

// A part of a verdict in a line or two: its mark, what was judged, and why.
function item(one) {
  const [kind, mark, outcome] = one.score === undefined ? ["soft", "–", "unscored"] : one.passed ? ["good", "✓", "passed"] : ["bad", "✗", "not passed"];
  const reasons = [...new Set([one.rationale, one.feedback]), one.unscored && words(one.unscored), one.detail].filter(Boolean).join(" ");
  return h("li", {}, h("span", { class: kind, role: "img", "aria-label": outcome }, mark), h("span", {}, one.subject ?? one.judge ?? ""), h("small", {}, reasons),
    one.items && h("ul", { class: "items" }, one.items.map(item)));
}

function side(one, name) {
  if (!one) return h("div", {}, h("h4", {}, name), h("p", { class: "soft" }, "This run does not have the row."));
  return h("div", {}, h("h4", {}, name), one.error ? h("p", { class: "bad" }, one.error) : one.answer === null ? h("p", { class: "soft" }, "No answer.") : text(one.answer),
    h("div", { class: "verdicts" }, Object.entries(one.verdicts).map(([judge, given]) => verdict(judge, given))));
}

// What changed between the answers of two runs, word by word; nothing where one of them has none.
function changed(before, after) {
  if (!before?.answer || !after?.answer) return null;
  if (before.answer === after.answer) return h("p", { class: "soft" }, "Both runs gave the same answer.");
  const section = more("what changed between the answers", h("p", { class: "text changed" }, diff(before.answer, after.answer)));
  section.open = true;
  return section;
}

function detail(place) {
  const one = details(place);
  const sides = one.sides.map((part, number) => side(part, pair ? runs[number] : "answer"));
  return [h("h3", {}, `Row ${rows[place]}`), labels[place] && h("p", {}, "People say: ", h("strong", { class: labels[place] }, labels[place])),
    one.earlier && more(many(one.earlier.length, "earlier message"), said(one.earlier)),
    one.question && h("p", { class: "question" }, one.question), one.steps && more(many(one.steps.length, "step"), said(one.steps)),
    pair ? h("div", { class: "sides" }, sides) : sides[0],
    pair && changed(...one.sides),
    one.reference && [h("h4", {}, "reference"), text(one.reference)],
    one.contexts && more(many(one.contexts.length, "context"), one.contexts.map(text)),
    one.metadata && more("metadata", h("dl", {}, one.metadata.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])))].flat().filter(Boolean);
}

function apply({ quiet = false } = {}) {
  order = chosen();
  const [key, direction] = state.sort.split(":");
  for (const head of grid.names.children) {
    if (head.dataset.key && head.dataset.key === key && direction) head.setAttribute("aria-sort", direction === "down" ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  grid.space.style.height = `${order.length * ROW}px`;
  grid.body.style.height = `min(68vh, 720px, ${order.length * ROW + HEAD + 16}px)`;
  grid.table.setAttribute("aria-rowcount", order.length + 1);
  byId("count").textContent = order.length === rows.length ? many(rows.length, "row") : `${count(order.length)} of ${count(rows.length)} rows`;
  const at = order.findIndex((place) => String(rows[place]) === state.row);
  if (at < 0) grid.body.scrollTop = 0;
  choose(Math.max(at, 0), { quiet: true });
  if (!quiet) toAddress();
}

function open() {
  if (!fromAddress()) return;
  drawFilter();
  apply({ quiet: true });
  if (state.row) byId("rows").scrollIntoView();
}

document.body.classList.add("scripted");
fromAddress();
drawGrid();
drawFilter();
apply({ quiet: true });
if (location.hash.includes("=")) byId("rows").scrollIntoView();
addEventListener("hashchange", open);
addEventListener("resize", drawLines);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && byId("detail").contains(event.target)) grid.table.focus();
  if (event.key !== "/" || event.target.closest("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  byId("filter").querySelector("input").focus();
  event.preventDefault();
});
