// What changed between two drafts, word by word.

import { h } from "./dom.js";

const MOST_WORDS = 1500;

const words = (text) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];

// Return [kind, text] pieces; kind is "same", "gone" or "new".
export function pieces(before, after) {
  const a = words(before), b = words(after);
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return [["gone", before], ["new", after]];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j]
        ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const out = [];
  const add = (kind, text) => {
    if (out.length && out.at(-1)[0] === kind) out.at(-1)[1] += text;
    else out.push([kind, text]);
  };
  let i = 0, j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { add("same", a[i]); i++; j++; }
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) add("gone", a[i++]);
    else add("new", b[j++]);
  }
  while (i < a.length) add("gone", a[i++]);
  while (j < b.length) add("new", b[j++]);
  return out;
}

// Join changes that only blanks or a mark lie between: a sentence that was rewritten reads better as one change.
export function joined(list) {
  const out = [];
  let gone = "", fresh = "";
  const flush = () => {
    if (gone) out.push(["gone", gone]);
    if (fresh) out.push(["new", fresh]);
    gone = fresh = "";
  };
  list.forEach(([kind, text], index) => {
    const between = kind === "same" && (gone || fresh) && index < list.length - 1 && !/[\p{L}\p{N}]/u.test(text) && !text.includes("\n");
    if (kind === "gone" || between) gone += text;
    if (kind === "new" || between) fresh += text;
    if (kind === "same" && !between) { flush(); out.push(["same", text]); }
  });
  flush();
  return out;
}

export function diff(before, after) {
  return joined(pieces(before, after)).map(([kind, text]) =>
    kind === "same" ? text : h(kind === "gone" ? "del" : "ins", {}, text));
}
