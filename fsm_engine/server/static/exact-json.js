// JSON as text: laid out, taken apart and compared without ever becoming numbers and strings of JavaScript, which would
// round the one and hide half of the other. The server has put an escape in the place of whatever cannot be seen.

import { h } from "./dom.js";

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const LINES_COMPARED = 2_000; // more lines are not compared one by one: it would take too long

/** @param {string} text */
export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The same JSON over several lines. @param {string} text */
export function layOut(text) {
  const tokens = text.match(TOKEN) ?? [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return tokens.map((token, place) => {
    if (token === "{" || token === "[") {
      if (/^[}\]]$/.test(tokens[place + 1] ?? "")) return token;
      depth += 1;
      return token + line();
    }
    if (token === "}" || token === "]") {
      if (/^[{[]$/.test(tokens[place - 1] ?? "")) return token;
      depth -= 1;
      return line() + token;
    }
    return token === "," ? token + line() : token === ":" ? ": " : token;
  }).join("");
}

/**
 * The members of an object, each with the exact text of its name and of its value.
 *
 * @param {string} text
 * @returns {[string, string][]}
 */
function memberTexts(text) {
  /** @type {[string, string][]} */
  const members = [];
  let depth = 0;
  let name = /** @type {string | null} */ (null);
  let value = "";
  for (const token of text.match(TOKEN) ?? []) {
    if (token === "}" || token === "]") depth -= 1;
    if ((depth === 1 && token === ",") || (depth === 0 && token === "}")) {
      if (name !== null) members.push([name, value]);
      name = null;
      value = "";
    } else if (depth === 1 && name === null) name = token;
    else if (depth > 1 || (depth === 1 && !(token === ":" && value === ""))) value += token;
    if (token === "{" || token === "[") depth += 1;
  }
  return members;
}

/** The members of an object by name, each with the exact text of its value. @param {string} text @returns {Map<string, string>} */
export function membersOf(text) {
  return new Map(memberTexts(text).map(([name, value]) => [JSON.parse(name), value]));
}

/** The same object, its members in the order of another's as far as that has them. @param {string} text @param {string} other */
export function inOrderOf(text, other) {
  const members = new Map(memberTexts(text));
  const first = memberTexts(other).map(([name]) => name).filter((name) => members.has(name));
  const names = new Set([...first, ...members.keys()]);
  return `{${[...names].map((name) => `${name}:${members.get(name)}`).join(",")}}`;
}

/** @param {Iterable<[string, string]>} members  names, and the JSON texts of their values */
export function objectText(members) {
  return `{${[...members].map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
}

/** JSON in a line, its numbers as they were sent and its texts as people write them. @param {string} text */
export function oneLine(text) {
  return (text.match(TOKEN) ?? []).map((token) => (token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token)).join("");
}

/**
 * What to put on the page for JSON: each string by itself, so that one in another direction of writing moves nothing.
 *
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function shownJson(text) {
  return text.split(/("(?:[^"\\]|\\.)*")/).map((part) => (part.startsWith('"') ? h("bdi", {}, part) : part));
}

/**
 * What becomes of the lines of one text in another.
 *
 * @param {string} before @param {string} after
 * @returns {{ kind: "same" | "gone" | "new", line: string }[]}
 */
export function difference(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  /** @type {{ kind: "same" | "gone" | "new", line: string }[]} */
  const found = [];
  if (old.length * now.length > LINES_COMPARED ** 2) {
    return [...old.map((line) => ({ kind: /** @type {const} */ ("gone"), line })), ...now.map((line) => ({ kind: /** @type {const} */ ("new"), line }))];
  }
  // Lengths of the longest common subsequences of what follows each pair of places.
  const width = now.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  const at = (/** @type {number} */ i, /** @type {number} */ j) => common[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) common[i * width + j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: "same", line: /** @type {string} */ (old[i]) });
      i += 1;
      j += 1;
    } else if (j >= now.length || (i < old.length && at(i + 1, j) >= at(i, j + 1))) {
      found.push({ kind: "gone", line: /** @type {string} */ (old[i]) });
      i += 1;
    } else {
      found.push({ kind: "new", line: /** @type {string} */ (now[j]) });
      j += 1;
    }
  }
  return found;
}
