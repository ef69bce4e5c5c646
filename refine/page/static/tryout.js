// The try box: a question, and its attempts as they happen.

import { lines } from "./api.js";
import { attemptView } from "./detail.js";
import { h, problem, say } from "./dom.js";
import { dollars, reason, seconds } from "./format.js";

export class TryOut {
  constructor(section, guards, models) {
    this.section = section;
    this.results = h("div", { class: "tried", "aria-live": "polite" });
    this.question = h("textarea", { rows: 2, "aria-label": "Question", placeholder: "Ask something; the answer is judged as your users' answers are, and is not recorded", maxlength: 20000,
      onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.ask(); } });
    this.guard = h("select", { "aria-label": "Guard" }, guards.map((guard) => h("option", { value: guard.name }, guard.name)));
    this.model = h("input", { type: "text", class: "model", "aria-label": "Model", placeholder: "model", list: "models", value: models[0] ?? "", maxlength: 200 });
    const known = h("datalist", { id: "models" }, models.map((model) => h("option", { value: model })));
    this.button = h("button", { type: "button", class: "primary", onclick: () => (this.stop ? this.stop.abort() : this.ask()) }, "Ask");
    section.replaceChildren(h("div", { class: "ask" }, this.question, h("div", { class: "ask-buttons" }, guards.length > 1 && this.guard, this.model, known, this.button)), this.results);
  }

  toggle() {
    this.section.hidden = !this.section.hidden;
    if (!this.section.hidden) this.question.focus();
  }

  async ask() {
    const question = this.question.value.trim();
    if (!question || this.stop) return;
    this.stop = new AbortController();
    this.button.textContent = "Stop";
    this.attempts = [];
    this.results.replaceChildren();
    try {
      for await (const event of lines("/try", { body: { question, guard: this.guard.value ?? "", model: this.model.value.trim() }, signal: this.stop.signal })) this.show(event);
      problem(null);
    } catch (error) {
      if (error.name === "AbortError") this.results.append(h("p", { class: "end" }, "stopped"));
      else problem(error);
    }
    this.stop = null;
    this.button.textContent = "Ask";
  }

  show(event) {
    if (event.event === "error") throw new Error(event.error);
    if (event.event === "end") {
      for (const attempt of this.attempts) attempt.released = attempt.number === event.released;
      this.draw();
      const end = [event.passed ? "passed" : "not passed", reason(event.stop_reason), event.detail, seconds(event.latency_s), event.cost === null ? "" : dollars(event.cost)].filter(Boolean).join(" · ");
      this.results.append(h("p", { class: "end" }, end));
      say(end);
      return;
    }
    const { event: kind, attempt: number, ...fields } = event;
    if (kind === "start") this.attempts.push({ number, waiting: true });
    else Object.assign(this.attempts.find((attempt) => attempt.number === number), fields, { waiting: false });
    this.draw();
  }

  draw() {
    this.results.replaceChildren(...this.attempts.map((attempt, index) => attemptView(attempt, this.attempts[index - 1])));
  }
}
