// Loaded by every page of the site, before its theme: search answers whole questions, and works from a folder.
"use strict";

const STOP_WORDS = new Set(
  ("a about all an and any are as at be been before but by can could did do does each for from get gets give gives had has have " +
    "how i if in into is it its many may me much my need no not of on one or our out own should so some such than that the their " +
    "them then there these they this to us use used using want was we what when where whether which who why will with " +
    "without would yet you your").split(" "),
);
const EVERYWHERE = /^(answers?|judges?|models?|questions?|selfrefine)$/i;
const ENDINGS = /(ations?|ings?|ates?|ated|ies|ed|es|e|s|y)$/;

/** Return what of a question is worth looking for; what is on every page counts a tenth of the rest. */
function keywords(question) {
  if (/["+:~^*]/.test(question)) return question; // written for the search, not as a question
  const words = question.split(/[\s?!,;()]+/).filter(Boolean);
  const kept = words.filter((word) => !STOP_WORDS.has(word.toLowerCase()));
  return (kept.length ? kept : words).map(termOf).join(" ");
}

function termOf(word) {
  if (/\w_\w/.test(word)) return word.split("_").map((part) => `+${part}^10`).join(" "); // a name, all of it
  const stem = /^[A-Z]?[a-z]{5,}$/.test(word) ? word.replace(ENDINGS, "") : word;
  const prefix = `${stem.length < 4 ? word : stem}*`;
  if (EVERYWHERE.test(word)) return prefix;
  return word.length < 5 ? `${word}^30 ${prefix}^5` : `${prefix}^10`; // a short word before what begins with it
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
