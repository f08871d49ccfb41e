// Says what happens to who hears the page instead of seeing it; many things at once are summed up.

import { byId, setText, stateWords } from "./dom.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */

const PAUSE = 1000; // milliseconds; what happens within them is said together
const MANY = 3;

export class Announcer {
  /** @type {string[]} */
  #waiting = [];
  /** @type {Map<string, number>} */
  #ends = new Map();
  #isDue = false;

  /** @param {string} text */
  say(text) {
    this.#waiting.push(text);
    if (this.#isDue) return;
    this.#isDue = true;
    setTimeout(() => this.#speak(), PAUSE);
  }

  /** @param {CallState} call @param {Record<string, any> | null} event */
  note(call, event) {
    if (event === null) this.say(`${call.name} has not answered in time`);
    else if (event.type === "tool_result" || event.type === "tool_error") {
      const outcome = call.status === "partial" ? "completed in part" : stateWords(call.state);
      this.#ends.set(outcome, (this.#ends.get(outcome) ?? 0) + 1);
      this.say(`${call.name} ${outcome}`);
    } else if (event.status === "AWAITING_APPROVAL") this.say(`${call.name} waits for your approval`);
    else if (event.type === "tool_fallback") this.say(`${call.name} falls back`);
  }

  #speak() {
    this.#isDue = false;
    const questions = this.#waiting.filter((text) => text.endsWith("your approval"));
    const summary = [...this.#ends].map(([outcome, count]) => `${count} ${outcome}`);
    setText(byId("announcements"), (this.#waiting.length > MANY ? [...questions, ...summary] : this.#waiting).join(". "));
    this.#waiting = [];
    this.#ends.clear();
  }
}
