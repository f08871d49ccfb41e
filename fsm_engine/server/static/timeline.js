// All calls of a run over time: a row each, its states one after the other.

import { pillWords } from "./cards.js";
import { byId, h, setAttribute, setText, stateWords, svg } from "./dom.js";
import { seconds } from "./tool-stream.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */

const FEW = 24; // up to so many calls the rows are high enough for a name
const HIGH = 22;
const LOW = 6;

export class Timeline {
  /** @type {Map<CallState, { bar: SVGGElement, label: HTMLElement, drawn: number }>} */
  #rows = new Map();
  #began = Infinity;
  #end = 0;
  #hasGrown = false;

  /** @param {(call: CallState) => void} select */
  constructor(select) {
    this.select = select;
    this.labels = byId("timeline-labels");
    this.scale = byId("timeline-scale");
    // Bars are in seconds; the view box alone makes pixels of them, so that no bar moves when the run grows longer.
    this.bars = svg("svg", { class: "bars", preserveAspectRatio: "none", "aria-hidden": "true" });
    byId("timeline-bars").replaceChildren(this.bars);
  }

  clear() {
    this.#rows.clear();
    this.#began = Infinity;
    this.#end = 0;
    this.labels.replaceChildren();
    this.bars.replaceChildren();
    setText(this.scale, "");
    this.#fit();
  }

  /** @param {CallState} call */
  show(call) {
    if (call.path.length === 0) return;
    if (this.#began === Infinity) this.#began = call.startedAt; // calls come in the order in which they began
    let row = this.#rows.get(call);
    if (row === undefined) {
      const label = h("button", { type: "button", class: "timeline-label", onclick: () => this.select(call) }, call.name);
      row = { bar: svg("g", { onclick: () => this.select(call) }), label, drawn: 0 };
      this.#rows.set(call, row);
      this.labels.append(label);
      this.bars.append(row.bar);
      this.#hasGrown = true;
    }
    for (; row.drawn < call.path.length; row.drawn += 1) {
      const step = /** @type {import("./run-state.js").Step} */ (call.path[row.drawn]);
      this.#close(row.bar, step.at);
      row.bar.append(svg("rect", { "data-state": step.state, "data-at": step.at, x: step.at - this.#began, y: 0.14, height: 0.72, width: 0 }, svg("title", {}, stateWords(step.state))));
    }
    if (call.endedAt !== null) {
      setAttribute(row.bar, "data-status", call.status);
      this.#end = Math.max(this.#end, call.endedAt);
    }
    setAttribute(row.label, "aria-label", `${call.name}, ${call.missing === null ? stateWords(call.state) : pillWords(call)}`);
    setAttribute(row.bar, "data-missing", call.missing);
  }

  /** Make room for new rows, once for all that a frame has brought: each time costs a layout of the page. */
  settle() {
    if (!this.#hasGrown) return;
    this.#hasGrown = false;
    this.#fit();
    const timeline = byId("timeline");
    timeline.scrollTop = timeline.scrollHeight;
  }

  /** @param {number} now  seconds since the epoch, by the server's clock @param {boolean} isRunning */
  tick(now, isRunning) {
    if (this.#rows.size === 0) return;
    const end = isRunning ? Math.max(now, this.#end) : this.#end;
    const length = Math.max(0.01, (end - this.#began) * 1.02);
    for (const [call, { bar }] of this.#rows) {
      if (call.endedAt === null && call.missing !== "unknown") this.#close(bar, Math.max(now, call.path.at(-1)?.at ?? 0));
      // The last state of a call that has ended has no length, and is to be seen all the same.
      else if (call.endedAt !== null) setAttribute(/** @type {Element} */ (bar.lastElementChild), "width", String(length / 120));
    }
    setAttribute(this.bars, "viewBox", `0 0 ${length} ${this.#rows.size}`);
    setText(this.scale, seconds(length / 1.02));
  }

  /** @param {CallState | null} selected */
  mark(selected) {
    for (const [call, { label, bar }] of this.#rows) {
      label.classList.toggle("is-selected", call === selected);
      bar.classList.toggle("is-selected", call === selected);
    }
  }

  #fit() {
    const count = this.#rows.size;
    const isFew = count <= FEW;
    setAttribute(byId("timeline"), "data-size", count === 0 ? "none" : isFew ? "few" : "many");
    this.bars.style.height = `${count * (isFew ? HIGH : LOW)}px`;
    [...this.bars.children].forEach((bar, place) => setAttribute(bar, "transform", `translate(0 ${place})`));
    setText(byId("timeline-count"), count === 0 ? "" : `${count} ${count === 1 ? "call" : "calls"}`);
  }

  /** Give the open bar of a row its end. @param {SVGGElement} row @param {number} at */
  #close(row, at) {
    const open = row.lastElementChild;
    if (open === null) return;
    setAttribute(open, "width", String(Math.max(0, at - Number(open.getAttribute("data-at")))));
  }
}
