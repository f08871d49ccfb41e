// What was said and done, from top to bottom: the person, the model, and the calls between its sentences.

import { CallCard } from "./cards.js";
import { byId, h, setAttribute, setText } from "./dom.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */
/** @typedef {import("./tool-stream.js").RunState} RunState */

const DENSE = 8; // calls beside each other from which on each gets one line

/** What there is to say of an end that is not the model's answer. */
const ENDS = /** @type {Record<string, string>} */ ({
  done: "",
  final_answer: "",
  cancelled: "The run was cancelled.",
  cut_off: "The model broke off in the middle of its answer.",
  max_turns: "The run was stopped: too many turns.",
  max_seconds: "The run was stopped: it took too long.",
  model_error: "The model could not be asked.",
});

/** One run in the conversation. */
export class RunView {
  /** @type {Map<CallState, CallCard>} */
  cards = new Map();
  #drawn = 0;
  /** @type {Map<import("./run-state.js").Entry, HTMLElement>} */
  #texts = new Map();
  /** @type {HTMLElement | null} */
  #group = null;

  /** @param {string} said @param {RunState} state @param {import("./cards.js").Acts} acts */
  constructor(said, state, acts) {
    this.state = state;
    this.acts = acts;
    this.element = h("section", { class: "run", "aria-label": "One question and what it led to" }, message("user", "You", said));
    byId("entries").append(this.element);
  }

  /** Draw what is new, up to a call or to the end. @param {CallState | null} call */
  draw(call) {
    const { entries } = this.state;
    while (this.#drawn < entries.length && (call === null || !this.cards.has(call))) {
      this.#add(/** @type {import("./run-state.js").Entry} */ (entries[this.#drawn]));
      this.#drawn += 1;
    }
    if (call !== null) this.cards.get(call)?.update();
    else this.#updateTexts();
  }

  /** How it ended, if there is anything to say of it. @param {string} text */
  close(text) {
    this.element.querySelector(".run-end")?.remove();
    if (text !== "") this.element.append(h("p", { class: "run-end" }, text));
  }

  /** @param {import("./run-state.js").Entry} entry */
  #add(entry) {
    if (entry.kind !== "call") {
      const element = message(entry.kind, "Model", entry.text);
      this.#texts.set(entry, element);
      this.#group = null;
      this.element.append(element);
      return;
    }
    if (this.#group === null) {
      this.#group = h("div", { class: "calls", role: "group", "aria-label": "Tool calls" });
      this.element.append(this.#group);
    }
    const card = new CallCard(entry.call, this.cards.size + 1, this.acts);
    this.cards.set(entry.call, card);
    this.#group.append(card.element);
    this.#group.classList.toggle("is-dense", this.#group.childElementCount > DENSE);
  }

  #updateTexts() {
    for (const [entry, element] of this.#texts) {
      if (entry.kind === "call") continue;
      setText(/** @type {Element} */ (element.querySelector(".text")), entry.text);
      setAttribute(element, "class", `message is-${entry.kind}`);
    }
  }
}

/** @param {"user" | "thinking" | "answer"} kind @param {string} who @param {string} text */
function message(kind, who, text) {
  return h("div", { class: `message is-${kind}` }, h("span", { class: "who" }, who), h("p", { class: "text" }, text));
}

/** Why a run is over, for people; "" if it went as it should. @param {Record<string, any>} end */
export function endWords(end) {
  if (typeof end.message === "string" && end.message !== "") return end.message;
  return ENDS[end.reason] ?? `The run has ended: ${String(end.reason).replaceAll("_", " ")}.`;
}

/** Keeps the newest in view while the reader is at the end, and leaves the page alone while the reader is elsewhere. */
export class Scroll {
  #isAtEnd = true;

  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    element.addEventListener("scroll", () => {
      this.#isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 80;
    }, { passive: true });
  }

  follow() {
    if (this.#isAtEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  toEnd() {
    this.#isAtEnd = true;
    this.follow();
  }
}
