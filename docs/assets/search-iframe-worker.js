// Loaded by every page of the site, before its theme: search answers whole questions, and works from a folder.
"use strict";

const STOP_WORDS = new Set(
  ("a about actually after all an and any anything anywhere are as at be because been before but by can could did do does doing " +
    "each even ever for from get gets getting give gives go goes gone got had happen happens has have having he help here how i if in " +
    "into is it its just know like long make makes making many may me mean means might mine much must my need needs no not of off on " +
    "one only or other our out own please possible should so some somebody someone something sort still such take than that the their " +
    "them then there these they thing things this those to too try under until up us use used uses using very want wants was way ways " +
    "we were what when where whether which while who whose why will with within without work works would yes yet you your").split(" "),
);
const EVERYWHERE = /^(answers?|calls?|chatbots?|check|different|judges?|models?|questions?|run|selfrefine|set|show)$/i;
const ENDINGS =
  /(?<=^\w{3,})(abl[ey]|ally|ations?|ators?|ances?|ants?|ences?|ency|ents?|encies|ings?|ions?|ives?|ments?|ates?|ated|ities|ity|iers?|ers?|ors?|ies|ied|est|ed|es|ly|e|s|y)$/;

/** Return what of a question is worth looking for; what is on every page counts a tenth of the rest. */
function keywords(question) {
  if (/["+:~^*]/.test(question)) return question; // written for the search, not as a question
  const words = question.split(/[\s?!,;()]+/).map((word) => word.replace(/['\u2019]\w{1,2}$/, "")).filter(Boolean);
  const kept = words.filter((word) => !STOP_WORDS.has(word.toLowerCase()));
  return (kept.length ? kept : words).map(termOf).join(" ");
}

function termOf(word) {
  if (/\w_\w/.test(word)) return word.split("_").map((part) => `+${part}^10`).join(" "); // a name, all of it
  const ended = /^[A-Z]?[a-z]{3,}$/.test(word) ? word.replace(ENDINGS, "") : word;
  const stem = ended === word ? word : ended.replace(/([bdgmnprt])\1$/, "$1"); // running, run
  if (EVERYWHERE.test(word)) return `${stem}*`;
  return stem.length < 5 ? `${stem}^30 ${stem}*^5` : `${stem}*^10`; // a short word before what begins with it
}

/** The worker of the search in a frame: a browser starts no worker for a page that it reads from a folder. */
class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    const inside = frame.contentWindow;
    inside.document.open();
    inside.document.write(`<!doctype html><body><script src="${url}"></` + "script>");
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.loaded = new Promise((resolve) => inside.addEventListener("load", resolve));
    inside.document.close();
    this.inside = inside;
  }

  postMessage(data) {
    this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
  }

  terminate() {
    this.inside.frameElement.remove();
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = FrameWorker; // by this name the theme's worker knows that it is in a frame
  window.Worker = FrameWorker;
}
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  const isQuery = message?.type === 2 && typeof message.data === "string";
  return post.call(this, isQuery ? { ...message, data: keywords(message.data) } : message, ...rest);
};
