// Charts in SVG: each says in words what it shows, and each bar what it stands for.

import { count, dollars, fullTime, percent, reason, seconds, tick } from "./format.js";
import { h, s } from "./dom.js";

const HEIGHT = 138, LEFT = 50, BOTTOM = 18, TOP = 8, TICK = 62;

function nice(top) {
  if (top <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 2.5, 5, 10].map((step) => step * unit).find((step) => step >= top);
}

function frame(width, title, legend, label, nothing, ...inside) {
  return h("figure", { class: "card chart" },
    h("figcaption", {}, h("span", { class: "name" }, title),
      h("span", { class: "legend" }, legend.map(([kind, text]) => h("span", {}, h("i", { class: `swatch ${kind}` }), text)))),
    inside.length ? s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": label }, ...inside)
      : h("p", { class: "nothing" }, nothing));
}

function axis(width, top, show) {
  const plot = HEIGHT - BOTTOM - TOP;
  return [0, 0.5, 1].map((share) => {
    const y = TOP + plot * (1 - share);
    return [s("line", { class: "grid", x1: LEFT, x2: width, y1: y, y2: y }),
      s("text", { class: "tick", x: LEFT - 5, y: y + 3.5, "text-anchor": "end" }, share ? show(top * share) : "0")];
  });
}

// Stacked bars over time; `stack` returns [class, value, text] from the bottom up.
function bars(width, series, stack, show, top) {
  const plot = HEIGHT - BOTTOM - TOP, step = (width - LEFT) / series.buckets.length;
  const dated = series.buckets.length > 0 && new Date(series.buckets[0].at).toDateString() !== new Date(series.buckets.at(-1).at).toDateString();
  const every = Math.ceil((series.buckets.length * TICK * 1.4) / (width - LEFT));
  return [axis(width, top, show), series.buckets.map((bucket, index) => {
    const x = LEFT + index * step;
    let y = HEIGHT - BOTTOM;
    const parts = stack(bucket).filter(([, value]) => value > 0);
    const rects = parts.map(([kind, value]) => {
      const height = (plot * value) / top;
      y -= height;
      return s("rect", { class: kind, x: x + step * 0.08, y, width: step * 0.84, height, rx: Math.min(1.5, height / 2) });
    });
    const about = `${tick(bucket.at, series.width, dated)}: ${parts.map(([, , text]) => text).join(", ") || "nothing"}`;
    return s("g", { class: "col" }, s("title", {}, about), s("rect", { class: "hit", x, y: TOP, width: step, height: plot }), rects,
      index % every === 0 && x + TICK <= width && s("text", { class: "tick", x, y: HEIGHT - 4 }, tick(bucket.at, dated && index === 0 ? Infinity : series.width)));
  })];
}

// Let whoever drags over a chart, or double-clicks a bar, see that time alone.
export function zoomable(figure, series, onZoom) {
  const columns = [...figure.querySelectorAll(".col")];
  const at = (event) => columns.indexOf(event.target.closest?.(".col"));
  let from = -1;
  const mark = (to) => columns.forEach((column, index) => column.classList.toggle("marked", from >= 0 && index >= Math.min(from, to) && index <= Math.max(from, to)));
  const zoom = (first, last) => onZoom(series.buckets[first].at, series.buckets[last].at + series.width);
  figure.addEventListener("pointerdown", (event) => { from = at(event); });
  figure.addEventListener("pointermove", (event) => { const to = at(event); if (from >= 0 && to >= 0 && to !== from) mark(to); });
  figure.addEventListener("pointerleave", () => { from = -1; mark(-1); });
  figure.addEventListener("pointerup", (event) => {
    const [begun, to] = [from, at(event)];
    from = -1;
    mark(-1);
    if (begun >= 0 && to >= 0 && to !== begun) zoom(Math.min(begun, to), Math.max(begun, to));
  });
  figure.addEventListener("dblclick", (event) => { const one = at(event); if (one >= 0) zoom(one, one); });
  return figure;
}

export function passing(figures, width) {
  const { series } = figures;
  const stack = (bucket) => {
    const at = bucket.passed_at;
    const later = Object.entries(at).reduce((sum, [number, many]) => sum + (Number(number) > 2 ? many : 0), 0);
    const passed = (at[1] ?? 0) + (at[2] ?? 0) + later;
    return [["one", at[1] ?? 0, `${at[1] ?? 0} at once`], ["two", at[2] ?? 0, `${at[2] ?? 0} at the 2nd`],
      ["more", later, `${later} later`], ["not", bucket.outcomes - passed, `${bucket.outcomes - passed} not`]];
  };
  const legend = [["one", "1st attempt"], ["two", "2nd"], ["more", "later"], ["not", "not passed"]];
  const said = `Passed at attempt, over time: ${percent(figures.passed_at[1] ?? 0, figures.outcomes)} at the first, ${percent(figures.passed, figures.outcomes)} in all`;
  const top = 2 * Math.ceil(nice(Math.max(...series.buckets.map((bucket) => bucket.outcomes)) / 2)); // half of it is a tick, and answers are whole
  return frame(width, "Passed at attempt", legend, said, "nothing yet", ...(figures.outcomes ? bars(width, series, stack, count, top) : []));
}

function spending(title, figures, width, names, show, nothing) {
  const unit = "an answer";
  const { series } = figures;
  const each = (bucket, name) => (bucket.outcomes ? (bucket[name] ?? 0) / bucket.outcomes : 0);
  const stack = (bucket) => [["generator", each(bucket, names[0]), `generator ${show(each(bucket, names[0]))}`],
    ["judge", each(bucket, names[1]), `judge ${show(each(bucket, names[1]))}`]];
  const totals = series.buckets.map((bucket) => each(bucket, names[0]) + each(bucket, names[1]));
  const top = nice(Math.max(0, ...totals));
  const known = totals.some((total) => total > 0);
  const said = `${title} ${unit}, over time, generator and judge apart; highest ${show(Math.max(0, ...totals))}`;
  return frame(width, `${title} ${unit}`, [["generator", "generator"], ["judge", "judge"]], said, figures.outcomes ? nothing : "nothing yet", ...(known ? bars(width, series, stack, show, top) : []));
}

export const latency = (figures, width) => spending("Time", figures, width, ["generate_s", "judge_s"], seconds, "nothing yet");
export const hasCost = (figures) => figures.series.buckets.some((bucket) => bucket.generate_cost || bucket.judge_cost);
export const cost = (figures, width) => spending("Cost", figures, width, ["generate_cost", "judge_cost"], dollars, 'no price of these models is known; prices = "known" in the policy takes the listed ones');

export function ratings(figures) {
  const judges = Object.entries(figures.ratings).sort();
  const kinds = ["1", "2", "3", "4", "unscored"], high = judges.length === 1 ? 92 : 48;
  return h("figure", { class: "card chart ratings" },
    h("figcaption", {}, h("span", { class: "name" }, "Ratings by judge")),
    judges.length ? judges.map(([judge, counts]) => {
      const total = kinds.reduce((sum, kind) => sum + (counts[kind] ?? 0), 0);
      const most = Math.max(...kinds.map((kind) => counts[kind] ?? 0));
      return h("div", { class: "judge-row" }, h("span", { class: "judge-name", title: judge }, judge),
        s("svg", { viewBox: `0 0 250 ${high}`, role: "img", "aria-label": `${judge}: ${kinds.map((kind) => `${counts[kind] ?? 0} times ${kind}`).join(", ")}` },
          kinds.map((kind, index) => {
            const many = counts[kind] ?? 0, height = ((high - 18) * many) / most;
            return s("g", {}, s("title", {}, `${kind}: ${many} (${percent(many, total)})`),
              s("rect", { class: `r${kind}`, x: index * 50 + 4, y: high - 14 - height, width: 42, height: Math.max(height, 0.8), rx: 1.5 }),
              s("text", { class: "tick", x: index * 50 + 25, y: high - 2, "text-anchor": "middle" }, kind === "unscored" ? "none" : kind));
          })));
    }) : h("p", { class: "nothing" }, "nothing yet"));
}

export function figuresRow(figures) {
  const failures = Object.entries({ ...figures.stop_reasons, ...figures.requests }).filter(([code]) => code !== "accepted")
    .sort((a, b) => b[1] - a[1]).map(([code, many]) => `${many} ${reason(code)}`);
  const all = [
    [count(figures.outcomes), "answers", failures.slice(0, 3).join(", ")],
    [percent(figures.passed, figures.outcomes), "passed", `${percent(figures.passed_at[1] ?? 0, figures.outcomes)} at the first attempt`],
    [figures.mean_rating === null ? "–" : figures.mean_rating.toFixed(1), "mean rating", figures.mean_attempts === null ? "" : `${figures.mean_attempts.toFixed(2)} attempts an answer`],
    [seconds(figures.latency_p50), "median time", `95 % within ${seconds(figures.latency_p95)}`],
    [figures.cost_unknown && !figures.cost ? "–" : dollars(figures.cost), "cost", !figures.cost && figures.cost_unknown ? 'unknown: set prices = "known"' : figures.cost_unknown ? `unknown of ${count(figures.cost_unknown)} answers` : `${count((figures.input_tokens ?? 0) + (figures.output_tokens ?? 0))} tokens`],
  ];
  return [...all.map(([value, name, more]) => h("div", { class: "card figure" }, h("strong", {}, value), h("span", {}, name), h("small", {}, more || "\u00a0"))),
    ...counted(figures.newest_since)];
}

// What is not kept in sums is counted one by one, and of very many the newest alone.
export const counted = (since) => (since ? [h("p", { class: "counted" }, `The newest 5,000 are looked at here, those since ${fullTime(since)}.`)] : []);

// A table of guards, keys or the like, sorted by whatever column is pressed; a row narrows the filter to itself.
const COLUMNS = [
  ["name", "", (row) => row.name || "–"], ["outcomes", "answers", (row) => count(row.outcomes)],
  ["passed", "passed", (row) => percent(row.passed, row.outcomes), (row) => (row.outcomes ? row.passed / row.outcomes : -1)],
  ["unjudged", "unjudged", (row) => count(row.unjudged)], ["left", "left", (row) => count(row.left)], ["errors", "errors", (row) => count(row.errors)],
  ["mean_attempts", "attempts", (row) => row.mean_attempts?.toFixed(2) ?? "–"], ["latency_p50", "median", (row) => seconds(row.latency_p50)],
  ["latency_p95", "95 %", (row) => seconds(row.latency_p95)], ["cost", "cost", (row) => dollars(row.cost)],
];

export function table(rows, sorted, onSort, onChoose) {
  const [name, down] = sorted;
  const key = COLUMNS.find(([column]) => column === name)?.[3] ?? ((row) => row[name] ?? -1);
  const order = (a, b) => (name === "name" ? String(a.name).localeCompare(b.name) : key(a) - key(b)) * (down ? -1 : 1);
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, COLUMNS.map(([column, title]) => h("th", { scope: "col", "aria-sort": column === name ? (down ? "descending" : "ascending") : undefined },
      h("button", { type: "button", onclick: () => onSort([column, column === name ? !down : column !== "name"]) }, title || "name", column === name && (down ? " ↓" : " ↑")))))),
    h("tbody", {}, [...rows].sort(order).map((row) => h("tr", {}, COLUMNS.map(([column, , show]) => (column === "name"
      ? h("th", { scope: "row" }, h("button", { type: "button", class: "link", title: "these answers alone", onclick: () => onChoose(row.name) }, show(row)))
      : h("td", { class: column === "errors" && row.errors || column === "unjudged" && row.unjudged ? "bad" : undefined }, show(row)))))))));
}

// Two sets of figures side by side: what is compared, as [name, value, how it is shown, whether it is a share].
const NOT_ACCEPTED = ["max_attempts", "no_progress", "blocked", "question_refused", "late_refusal", "withdrawn"];
const sum = (counts, wanted) => Object.entries(counts).reduce((all, [name, many]) => all + (wanted(name) ? many : 0), 0);
const share = (part, whole) => (whole ? part / whole : null);
const asShare = (value) => (value === null ? "–" : `${(100 * value).toFixed(1)} %`);
const COMPARED = [
  ["answers", (figures) => figures.outcomes, count],
  ["passed", (figures) => share(figures.passed, figures.outcomes), asShare],
  ["refused", (figures) => share(sum(figures.stop_reasons, (name) => NOT_ACCEPTED.includes(name)), figures.outcomes), asShare],
  ["unjudged", (figures) => share(sum(figures.stop_reasons, (name) => ["judge_failed", "skipped"].includes(name)), figures.outcomes), asShare],
  ["errors", (figures) => sum(figures.requests, (name) => name.startsWith("error_")), count],
  ["attempts", (figures) => figures.mean_attempts, (value) => (value === null ? "–" : value.toFixed(2))],
  ["median time", (figures) => figures.latency_p50, seconds],
  ["95 % within", (figures) => figures.latency_p95, seconds],
  ["tokens", (figures) => (figures.input_tokens ?? 0) + (figures.output_tokens ?? 0), count],
  ["cost", (figures) => figures.cost, dollars],
];

function difference(ours, theirs, show) {
  if (ours === null || theirs === null || ours === undefined || theirs === undefined || ours === theirs) return "";
  const sign = ours > theirs ? "+" : "−";
  if (show === asShare) return `${sign}${Math.abs(100 * (ours - theirs)).toFixed(1)} points`;
  return theirs ? `${sign}${Math.abs((100 * (ours - theirs)) / theirs).toFixed(0)} %` : "";
}

export function sideBySide([ours, our], [theirs, their]) {
  return h("div", { class: "scroll" }, h("table", { class: "beside" },
    h("thead", {}, h("tr", {}, ["", ours, theirs, "difference"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, COMPARED.map(([name, value, show]) => h("tr", {}, h("th", { scope: "row" }, name),
      [our, their].map((figures) => h("td", {}, show(value(figures)))), h("td", { class: "soft" }, difference(value(our), value(their), show)))))));
}
