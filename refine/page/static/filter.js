// The filter: a form, kept in the address so that a view can be sent to somebody.

import { h } from "./dom.js";
import { reason } from "./format.js";

export const NAMES = ["since", "until", "passed", "rating", "stop_reason", "refiner", "model", "judge", "key", "user", "session", "thread", "labelled", "text"];
const WINDOWS = [["15m", "last 15 minutes"], ["1h", "last hour"], ["6h", "last 6 hours"], ["24h", "last 24 hours"], ["7d", "last 7 days"], ["30d", "last 30 days"], ["", "all time"]];
const OWN = "own";
export const START = { since: "24h" };

export function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  const filter = Object.fromEntries(NAMES.filter((name) => parameters.has(name)).map((name) => [name, parameters.get(name)]));
  return { filter: { ...START, ...filter }, id: parameters.get("id"), review: parameters.get("review") };
}

export function toAddress(filter, id, review) {
  const parameters = new URLSearchParams();
  for (const name of NAMES) if ((filter[name] ?? "") !== (START[name] ?? "")) parameters.set(name, filter[name] ?? "");
  if (review) parameters.set("review", review);
  if (id) parameters.set("id", id);
  history.replaceState(null, "", `/${parameters.size ? `?${parameters}` : ""}`);
}

// A time as a field of the browser has it, and back as milliseconds.
const local = (at) => {
  const time = /^\d+$/.test(at ?? "") ? Number(at) : Date.parse(at ?? "");
  return Number.isFinite(time) ? new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 16) : "";
};
const moment = (text) => (text ? String(new Date(text).getTime()) : "");

const LENGTHS = { m: 60_000, h: 3_600_000, d: 86_400_000 };

// The time of a filter in milliseconds; nothing where it has no beginning.
export function range(since, until) {
  const [, many, unit] = /^(\d+)([mhd])$/.exec(since ?? "") ?? [];
  const to = until ? Number(until) : Date.now();
  const from = many ? to - many * LENGTHS[unit] : Number(since);
  return from > 0 && to > from ? [from, to] : [];
}
export const isOwn = (filter) => Boolean(filter.until) || !WINDOWS.some(([value]) => value === (filter.since ?? ""));
export const nameOf = (since) => WINDOWS.find(([value]) => value === (since ?? ""))?.[1] ?? "this time";

export const asQuery = (filter) => Object.fromEntries(Object.entries(filter).filter(([, value]) => value));

export function draw(form, filter, choices, texts, onChange) {
  const select = (name, label, options) => {
    const chosen = filter[name] && !options.some(([value]) => value === filter[name]) ? [[filter[name], filter[name]]] : [];
    return h("select", { name, "aria-label": label, onchange: changed }, [...options, ...chosen].map(([value, text]) =>
      h("option", { value, selected: value === (filter[name] ?? "") }, text)));
  };
  const any = (name, label, show = String) => (choices[name]?.length > 1 || filter[name]) && select(name, label, [["", label], ...(choices[name] ?? []).map((value) => [value, show(value)])]);
  const changed = () => {
    const next = Object.fromEntries(NAMES.map((name) => [name, form.elements[name]?.value ?? filter[name] ?? ""]));
    const choice = form.elements.window.value;
    Object.assign(next, choice === OWN ? { since: moment(form.elements.from.value), until: moment(form.elements.to.value) } : { since: choice, until: "" });
    onChange(next);
  };
  const own = h("span", { class: "range", hidden: !isOwn(filter) },
    h("input", { type: "datetime-local", name: "from", "aria-label": "from", value: local(filter.since), onchange: () => changed() }), " – ",
    h("input", { type: "datetime-local", name: "to", "aria-label": "until", value: local(filter.until), onchange: () => changed() }));
  const windows = h("select", { name: "window", "aria-label": "time", onchange: (event) => {
    if (event.target.value === OWN) { own.hidden = false; own.firstChild.focus(); } else changed();
  } }, [...WINDOWS, [OWN, "own time …"]].map(([value, text]) => h("option", { value, selected: isOwn(filter) ? value === OWN : value === (filter.since ?? "") }, text)));
  let later;
  form.replaceChildren(...[
    windows, own, isOwn(filter) && h("button", { type: "button", class: "small", onclick: () => onChange({ ...filter, ...START, until: "" }) }, "Zoom out"),
    select("passed", "passed or not", [["", "passed or not"], ["true", "passed"], ["false", "not passed"]]),
    select("rating", "any rating", [["", "any rating"], ...[4, 3, 2, 1].map((rating) => [String(rating), `rated ${rating}`])]),
    any("stop_reason", "any end", reason), any("refiner", "any guard"), any("model", "any model"), any("judge", "any judge"),
    any("key", "any key"), any("user", "any user"), any("session", "any session"), any("thread", "any thread"),
    select("labelled", "labels", [["", "labelled or not"], ["no", "without a label"], ["yes", "labelled"], ["disagree", "people and judge differ"]]),
    h("input", { type: "search", name: "text", "aria-label": "Search", placeholder: texts ? "search questions and drafts (/)" : "no texts are recorded", disabled: !texts, value: filter.text ?? "", maxlength: 200,
      oninput: () => { clearTimeout(later); later = setTimeout(changed, 300); } }),
  ].filter(Boolean));
}
