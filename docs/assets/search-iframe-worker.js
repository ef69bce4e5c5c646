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
const ENDING =
  /(?<=^[a-z]{3,})(abl[ey]|ation|ator|ance|ant|ence|ency|ent|ing|ion|ive|ment|ate|ated|ity|ier|er|or|ied|ed|e|y)$/;
const IN_PHRASES = 6; // what it counts that a page's phrases have a word, beside one place in its text
const IN_TEXT = 0.3;
const ALIKE = 0.15; // what a word counts of which people say one and a page another
const MISTYPED = 0.6;
const NEAREST = 0.6; // what it counts that one phrase or heading has all words, beside the words by themselves

/** Return what is left of a word without its endings: "ratings" and "rated" are found by each other. */
function stemOf(word) {
  if (!/^[a-z]{4,}$/.test(word)) return word;
  let stem = word.replace(/(?<=^[a-z]{2,}[^su])s$/, "").replace(/(?<=^[a-z]{4,})ly$/, "");
  for (let time = 0; time < 3; time += 1) stem = stem.replace(ENDING, "");
  return stem === word ? word : stem.replace(/([bdgmnprt])\1$/, "$1"); // running, run
}

/** Return the words of a text; a name such as `header_timeout_s` is a list of itself and its parts. */
function namesOf(text) {
  return [...text.matchAll(/[\p{L}\p{N}_]+(?:[.-][\p{L}\p{N}_]+)*/gu)].map(([name]) => {
    const parts = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().split(/[\s_.-]+/).filter(Boolean);
    return parts.length > 1 ? [name.toLowerCase(), ...parts] : parts;
  });
}

/** Return the words of a question or a phrase that say what it is about. */
function keywordsOf(text) {
  const words = text.split(/[\s?!,;()"/]+/).map((word) => word.replace(/['\u2019]\w{1,2}$/, ""));
  return words.filter((word) => word && !STOP_WORDS.has(word.toLowerCase())).flatMap(namesOf);
}

const textOf = (html) => html.replace(/<[^>]+>/g, " ").replace(/&(lt|gt|amp|quot);/g, " ");
const pageOf = (section) => section.location.split("#")[0];
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The pages of the site, to be put in order for a question. */
class Pages {
  constructor(sections, { alike, phrases, weights }) {
    this.pages = new Map();
    this.stems = new Map();
    this.frequencies = new Map();
    this.alike = new Map();
    for (const group of alike.map((line) => line.split(" ").map(stemOf))) {
      for (const word of group) this.alike.set(word, [...(this.alike.get(word) ?? []), ...group]);
    }
    for (const section of sections) {
      const path = pageOf(section).replace(/\.html$/, "");
      const weight = weights[path] ?? weights[path.split("/")[0]] ?? 1;
      if (!this.pages.has(path)) this.pages.set(path, this.newPage(section, phrases[path] ?? "", weight));
      const page = this.pages.get(path);
      const title = textOf(section.title);
      page.phrases.push([this.wordsOf(keywordsOf(title)), weight]);
      for (const word of this.wordsOf(namesOf(`${title} ${textOf(section.text)}`))) {
        page.counts.set(word, (page.counts.get(word) ?? 0) + IN_TEXT);
      }
    }
    for (const { counts } of this.pages.values()) {
      for (const word of counts.keys()) this.frequencies.set(word, (this.frequencies.get(word) ?? 0) + 1);
    }
  }

  newPage(section, text, weight) {
    const asked = new Set(this.wordsOf(namesOf(text)));
    const counts = new Map([...asked].map((word) => [word, IN_PHRASES]));
    const phrases = text.split(",").map((phrase) => [this.wordsOf(keywordsOf(phrase)), 1]);
    return { section, asked, counts, weight, phrases };
  }

  /** Return the stems of names, and keep how they were written. */
  wordsOf(names) {
    return names.flat().map((word) => {
      if (!this.stems.has(word)) this.stems.set(word, stemOf(word));
      return this.stems.get(word);
    });
  }

  /** Return how much a word tells: the fewer pages have it, the more. */
  rarity(word) {
    const pages = this.frequencies.get(word) ?? 0;
    return Math.log(1 + (this.pages.size - pages + 0.5) / (pages + 0.5));
  }

  /** Return the words that begin with one that no page has, or else those that are a letter or two away. */
  nearest(word) {
    if (word.length < 4) return [];
    const written = [...this.stems.keys()];
    const longer = written.filter((other) => other.startsWith(word));
    const most = word.length < 8 ? 1 : 2;
    const similar = written.filter((other) => other[0] === word[0] && Math.abs(other.length - word.length) <= most);
    const distances = similar.map((other) => distance(word, other));
    const least = Math.min(...distances, most);
    const close = similar.filter((_, place) => distances[place] === least);
    return [...new Set((longer.length ? longer : close).map((other) => this.stems.get(other)))];
  }

  /** Return, for each word that is asked for, the words of pages that it may stand for, and how much each counts. */
  terms(question) {
    const names = keywordsOf(question).map((name) => (this.frequencies.has(stemOf(name[0])) ? [name[0]] : name));
    return [...new Set(names.flat())].map((name) => {
      const word = stemOf(name);
      const found = this.frequencies.has(word) ? [[word, 1]] : this.nearest(name).map((other) => [other, MISTYPED]);
      const term = new Map(found);
      for (const other of [word, ...term.keys()].flatMap((each) => this.alike.get(each) ?? [])) {
        if (!term.has(other) && this.frequencies.has(other)) term.set(other, ALIKE);
      }
      return term;
    }).filter((term) => term.size);
  }

  /** Return the first sections of the pages that answer a question, the best page first. */
  answering(terms) {
    const rarities = terms.map((term) => this.rarity(term.keys().next().value));
    const whole = Math.hypot(...rarities);
    const scored = [...this.pages.values()].map((page) => {
      const byWords = sum(terms.map((term) => Math.max(...[...term].map(([word, share]) => {
        const count = page.counts.get(word) ?? 0;
        const weight = page.asked.has(word) ? 1 : page.weight;
        return (weight * share * this.rarity(word) * count) / (2 + count);
      }))));
      const byPhrases = byWords && page.phrases.map(([phrase, weight]) => {
        const shares = terms.map((term) => Math.max(0, ...phrase.map((word) => term.get(word) ?? 0)));
        const shared = sum(shares.map((share, place) => share * rarities[place] ** 2));
        return shared && (weight * shared) / whole / Math.hypot(...phrase.map((word) => this.rarity(word)));
      });
      return [byWords && byWords + NEAREST * Math.max(...byPhrases) * sum(rarities), page];
    });
    return scored.filter(([score]) => score).sort(([a], [b]) => b - a).map(([, page]) => page.section);
  }
}

/** Return how many letters must be changed, added, left out or swapped to make one word of another. */
function distance(one, other) {
  const rows = [];
  for (let i = 0; i <= one.length; i += 1) {
    rows.push([i]);
    for (let j = 1; j <= other.length; j += 1) {
      rows[i][j] = i ? Math.min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] !== other[j - 1])) : j;
      const areSwapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (areSwapped) rows[i][j] = Math.min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[one.length][other.length];
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

const isFolder = location.protocol === "file:";
const SETUP = 0, QUERY = 2, RESULT = 3; // the messages of the theme's search

/** The theme's worker finds and marks words in sections; in which order pages come is decided here. */
class OrderedSearch extends (isFolder ? FrameWorker : Worker) {
  answers = [];

  constructor(...all) {
    super(...all);
    this.addEventListener("message", ({ data: message }) => {
      if (message.type !== RESULT) return;
      const marked = new Map(message.data.items.map((page) => [pageOf(page[0]), page]));
      const answers = new Map((this.answers.shift() ?? []).map((first) => [pageOf(first), [{ ...first, score: 0, terms: {} }]]));
      message.data.items = [...new Map([...answers, ...marked]).values()];
      // The theme would call the beginnings of words that were searched ("bot*") missing.
      message.data.items.flat().forEach((section) => (section.terms = {}));
    });
  }

  postMessage(message, ...rest) {
    if (message.type === SETUP) this.sections = message.data.docs;
    if (message.type !== QUERY) return super.postMessage(message, ...rest);
    this.pages ??= new Pages(this.sections, window.searchWords);
    const terms = this.pages.terms(message.data);
    this.answers.push(this.pages.answering(terms));
    const marked = terms.flatMap((term) => [...term].filter(([, share]) => share > ALIKE).map(([word]) => `${word}*`));
    return super.postMessage({ ...message, data: marked.slice(0, 20).join(" ") || message.data }, ...rest);
  }
}

if (isFolder) window.IFrameWorker = OrderedSearch; // by this name the theme's worker knows that it is in a frame
window.Worker = OrderedSearch;
