// Numbers and times as people read them.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" });
const DAY = 86_400_000;

export const count = (value) => (value === null || value === undefined ? "–" : value < 10_000 ? number.format(value) : compact.format(value));
export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");
export const time = (at) => (new Date(at).toDateString() === new Date().toDateString() ? clock : day).format(at);
export const fullTime = (at) => full.format(at);

export function tick(at, width, dated = false) {
  const options = width >= DAY ? { month: "short", day: "numeric" } : { ...(dated && { month: "short", day: "numeric" }), hour: "2-digit", minute: "2-digit", ...(width < 60_000 && { second: "2-digit" }) };
  return new Intl.DateTimeFormat(undefined, options).format(at);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 0.0095) return `${(value * 1000).toFixed(1)} ms`;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return value < 90 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
}

export function dollars(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "$0";
  return value < 0.01 ? `$${Number(value.toPrecision(2))}` : value < 100 ? `$${value.toFixed(2)}` : `$${compact.format(value)}`;
}

const REASONS = {
  accepted: "accepted", max_attempts: "out of attempts", budget: "out of budget", deadline: "out of time",
  no_progress: "no better", blocked: "blocked", question_refused: "question refused", skipped: "not judged", judge_failed: "judge failed",
  passed_through: "passed through", generator_failed: "generator failed", interrupted: "awaits a review", broken_off: "broken off",
};
export const reason = (code) => REASONS[code] ?? String(code).replace(/^error_/, "error ");
