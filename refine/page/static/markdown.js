// Markdown as elements: blocks and spans that answers have. No markup is ever parsed: every piece is a text node.

import { h } from "./dom.js";

const SPAN = /(`+)([^`]|[^`].*?[^`])\1(?!`)|\*\*(?=\S)(.+?)\*\*|__(?=\S)(.+?)__|\*(?=[^\s*])([^*\n]+?)\*(?!\*)|\b_(?=\S)([^_\n]+?)_\b|\[([^\]\n]+)\]\(([^\s)]+)(?:\s[^)]*)?\)/g;
const BLOCK = /^(?:```|~~~| {0,3}#{1,6} | {0,3}[-*+] | {0,3}\d{1,9}[.)] | {0,3}>|\|.*\|)/m;
const MARKS = /\*\*|__|`|\]\(/;
const DEEPEST = 4;
const LONGEST = 5_000; // characters of one paragraph: its marks are looked for in time that grows with the square

function spans(text, depth = 0) {
  if (depth > DEEPEST || text.length > LONGEST) return [text];
  const out = [];
  let at = 0;
  for (const found of text.matchAll(SPAN)) {
    const [whole, , code, strong, strong2, weak, weak2, name, address] = found;
    out.push(text.slice(at, found.index));
    at = found.index + whole.length;
    if (code !== undefined) out.push(h("code", {}, code));
    else if (strong ?? strong2) out.push(h("strong", {}, spans(strong ?? strong2, depth + 1)));
    else if (weak ?? weak2) out.push(h("em", {}, spans(weak ?? weak2, depth + 1)));
    else out.push(h("span", { class: "address", title: address }, spans(name, depth + 1), h("small", {}, ` (${address})`))); // told, not followed
  }
  out.push(text.slice(at));
  return out.filter((part) => part !== "");
}

const cells = (line) => line.replace(/^\s*\||\|\s*$/g, "").split("|").map((cell) => cell.trim());

// Read the lines of a list from `at` on; deeper ones become a list inside.
function list(lines, at, indent) {
  const ordered = /^\s*\d/.test(lines[at]);
  const items = [];
  while (at < lines.length) {
    const item = /^(\s*)(?:[-*+]|\d{1,9}[.)])\s+([^]*)$/.exec(lines[at]);
    if (item && item[1].length > indent + 1 && items.length) {
      const [inner, next] = list(lines, at, item[1].length);
      items.at(-1).append(inner);
      at = next;
    } else if (item && item[1].length >= indent - 1) {
      items.push(h("li", {}, spans(item[2])));
      at += 1;
    } else if (!item && lines[at].trim() && /^\s{2,}/.test(lines[at]) && items.length) {
      items.at(-1).append(" ", ...spans(lines[at].trim()));
      at += 1;
    } else break;
  }
  return [h(ordered ? "ol" : "ul", {}, items), at];
}

function code(lines, at) {
  const [, fence, language] = /^\s*(```+|~~~+)\s*([\w+#.-]*)/.exec(lines[at]);
  let end = at + 1;
  while (end < lines.length && !lines[end].trimStart().startsWith(fence)) end += 1;
  return [h("pre", { class: "code", "data-language": language || undefined }, h("code", {}, lines.slice(at + 1, end).join("\n"))), end + 1];
}

function tableOf(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  return [h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, cells(lines[at]).map((cell) => h("th", {}, spans(cell))))),
    h("tbody", {}, lines.slice(at + 2, end).map((line) => h("tr", {}, cells(line).map((cell) => h("td", {}, spans(cell)))))))), end];
}

// Return the text as elements, or null where nothing in it is Markdown.
export function markdown(text) {
  if (text.length > 200_000 || !(BLOCK.test(text) || MARKS.test(text))) return null;
  const lines = text.split(/\r\n?|\n/);
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at], heading = line.length <= LONGEST && /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    let block = null;
    if (/^\s*(```|~~~)/.test(line)) [block, at] = code(lines, at);
    else if (heading) { block = h("p", { class: `heading h${heading[1].length}` }, spans(heading[2])); at += 1; }
    else if (/^\s*(?:[-*+]|\d{1,9}[.)])\s+\S/.test(line)) [block, at] = list(lines, at, /^\s*/.exec(line)[0].length);
    else if (line.includes("|") && /^\s*(?:\|\s*)?:?-{2,}/.test(lines[at + 1] ?? "")) [block, at] = tableOf(lines, at);
    else if (/^ {0,3}>/.test(line)) {
      const inside = [];
      while (at < lines.length && /^ {0,3}>/.test(lines[at])) inside.push(lines[at++].replace(/^ {0,3}> ?/, ""));
      block = h("blockquote", {}, spans(inside.join("\n")));
    } else if (!line.trim()) at += 1;
    else {
      const inside = [];
      do inside.push(lines[at++]); while (at < lines.length && lines[at].trim() && !BLOCK.test(lines[at]));
      block = h("p", {}, spans(inside.join("\n")));
    }
    if (block) blocks.push(block);
  }
  return h("div", {}, blocks);
}
