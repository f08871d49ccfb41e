// Server-sent events as text, and JSON that may have been damaged on its way.
//
// The framing is that of the HTML standard, section 9.2 "Server-sent events":
// https://html.spec.whatwg.org/multipage/server-sent-events.html

/**
 * One message as the standard dispatches it.
 *
 * @typedef {object} Message
 * @property {string} event  its name; "message" if it has none
 * @property {string} data   its data lines, joined by line feeds
 * @property {string} id     the id that is in force: this message's own, or the last one before it
 */

/** Takes a stream's text in pieces of any size and gives the messages that are whole. */
export class EventStreamParser {
  #buffer = "";
  #skipsLineFeed = false;
  #isFirst = true;
  #event = "";
  /** @type {string[]} */
  #data = [];
  #id = "";

  /** Milliseconds to wait before reconnecting, if the server has said so. @type {number | null} */
  retry = null;

  /**
   * @param {string} text  the next piece
   * @returns {Message[]}  the messages that it completes
   */
  push(text) {
    if (this.#isFirst && text !== "") {
      text = text.replace(/^\uFEFF/, "");
      this.#isFirst = false;
    }
    // A carriage return that ended the last piece was a line's end already; its line feed is not another one.
    if (this.#skipsLineFeed && text !== "") {
      text = text.replace(/^\n/, "");
      this.#skipsLineFeed = false;
    }
    /** @type {Message[]} */
    const messages = [];
    const lineEnd = /\r\n|\n|\r/g;
    lineEnd.lastIndex = this.#buffer.length;
    const whole = this.#buffer + text;
    let start = 0;
    for (let end = lineEnd.exec(whole); end !== null; end = lineEnd.exec(whole)) {
      const message = this.#takeLine(whole.slice(start, end.index));
      if (message !== null) messages.push(message);
      start = lineEnd.lastIndex;
      this.#skipsLineFeed = end[0] === "\r" && start === whole.length;
    }
    this.#buffer = whole.slice(start);
    return messages;
  }

  /** @param {string} line @returns {Message | null} */
  #takeLine(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment, such as a ping
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return null;
  }

  /** @returns {Message | null} */
  #dispatch() {
    const data = this.#data;
    const event = this.#event || "message";
    this.#data = [];
    this.#event = "";
    return data.length === 0 ? null : { event, data: data.join("\n"), id: this.#id };
  }
}

/**
 * What could be read of a message.
 *
 * @typedef {object} Reading
 * @property {Record<string, any>} event        the event; of a damaged one, what could be recovered
 * @property {"none" | "repaired" | "cut"} damage  "repaired": all of it could be read in spite of the damage;
 *                                              "cut": the event is incomplete
 */

/**
 * Read a message's data as an event. Never throws: of a damaged one it recovers what there is.
 *
 * @param {Message} message
 * @returns {Reading}
 */
export function readMessage(message) {
  /** @type {any} */
  let value;
  /** @type {Reading["damage"]} */
  let damage = "none";
  try {
    value = JSON.parse(message.data);
  } catch {
    [value, damage] = salvage(message.data);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    value = {};
    damage = "cut";
  }
  if (damage !== "none") {
    // The frame around the data survives damage inside it.
    if (typeof value.type !== "string" && message.event !== "message") value.type = message.event;
    if (typeof value.seq !== "number" && /^\d+$/.test(message.id)) value.seq = Number(message.id);
  }
  return { event: value, damage };
}

/** Fields by which an event finds its place; they are looked for even where nothing around them can be read. */
const SIGNPOSTS = [
  ["type", /"type"\s*:\s*"(\w+)"/],
  ["id", /"id"\s*:\s*"([^"\\]*)"/],
  ["uid", /"uid"\s*:\s*"([^"\\]*)"/],
  ["status", /"status"\s*:\s*"(\w+)"/],
];

/**
 * @param {string} text
 * @returns {[Record<string, any>, "repaired" | "cut"]}
 */
function salvage(text) {
  const start = text.indexOf("{");
  const reader = new TolerantReader(start < 0 ? "{" : text.slice(start));
  const found = reader.value();
  /** @type {Record<string, any>} */
  const event = found !== null && typeof found === "object" ? /** @type {any} */ (found) : {};
  if (reader.isWhole) return [event, "repaired"];
  for (const [field, pattern] of /** @type {[string, RegExp][]} */ (SIGNPOSTS)) {
    const match = event[field] === undefined ? pattern.exec(text) : null;
    if (match !== null) event[field] = match[1];
  }
  const result = /"result"\s*:\s*\{/.exec(text);
  if (event.result === undefined && result !== null) {
    event.result = new TolerantReader(text.slice(result.index + result[0].length - 1)).value();
  }
  return [event, "cut"];
}

/** Marks a value of which nothing could be read. */
const NOTHING = Symbol("nothing");

/**
 * Reads JSON as far as it goes. Raw control characters in strings, NaN and Infinity (as null) and text after the end
 * are put up with; where the text breaks off or makes no sense, what has been read up to there is the answer.
 */
class TolerantReader {
  #at = 0;
  #text;
  isWhole = true;

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  /** @returns {unknown} */
  value() {
    const value = this.#value(0);
    return value === NOTHING ? null : value;
  }

  /** @param {number} depth @returns {unknown} */
  #value(depth) {
    const next = this.#peek();
    if (depth > 100) return this.#broken();
    if (next === "{") return this.#object(depth);
    if (next === "[") return this.#array(depth);
    if (next === '"') return this.#string();
    const word = /(?:true|false|null|NaN|-?Infinity|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)(?=[\s,\]}])/y;
    word.lastIndex = this.#at;
    const match = word.exec(this.#text);
    if (match === null) return this.#broken();
    this.#at = word.lastIndex;
    return /NaN|Infinity/.test(match[0]) ? null : JSON.parse(match[0]);
  }

  /** @param {number} depth */
  #object(depth) {
    /** @type {Record<string, unknown>} */
    const found = {};
    this.#at += 1;
    if (this.#took("}")) return found;
    while (this.isWhole) {
      if (this.#peek() !== '"') break;
      const name = this.#string();
      if (!this.isWhole || !this.#took(":")) break;
      const value = this.#value(depth + 1);
      // Made, not assigned: a field called __proto__ is a field like any other.
      if (value !== NOTHING) Object.defineProperty(found, name, { value, enumerable: true, writable: true, configurable: true });
      if (this.isWhole && this.#took("}")) return found;
      if (!this.isWhole || !this.#took(",")) break;
    }
    this.isWhole = false;
    return found;
  }

  /** @param {number} depth */
  #array(depth) {
    /** @type {unknown[]} */
    const found = [];
    this.#at += 1;
    if (this.#took("]")) return found;
    while (this.isWhole) {
      const value = this.#value(depth + 1);
      if (value !== NOTHING) found.push(value);
      if (this.isWhole && this.#took("]")) return found;
      if (!this.isWhole || !this.#took(",")) break;
    }
    this.isWhole = false;
    return found;
  }

  /** @returns {string} */
  #string() {
    const body = /[^"\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*)*/y;
    body.lastIndex = this.#at + 1;
    const raw = /** @type {RegExpExecArray} */ (body.exec(this.#text))[0];
    this.#at = body.lastIndex + 1;
    if (this.#text[body.lastIndex] !== '"') this.isWhole = false;
    return JSON.parse(`"${raw.replace(/[\u0000-\u001f]/g, (sign) => "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0"))}"`);
  }

  /** @returns {unknown} */
  #broken() {
    this.isWhole = false;
    return NOTHING;
  }

  #peek() {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at += 1;
    return this.#text[this.#at];
  }

  /** @param {string} sign */
  #took(sign) {
    if (this.#peek() !== sign) return false;
    this.#at += 1;
    return true;
  }
}
