// The circuit breakers: each one's state, and what it has counted.

import { byId, h, setText } from "./dom.js";
import { seconds } from "./tool-stream.js";

/** @typedef {{ scope: string, state: string, failure_rate: number | null, buffered: number, failed: number, refused: number, retry_after: number | null }} Circuit */

const PERIOD = 1000; // milliseconds between two looks while something may change

export class Circuits {
  #isAsking = false;
  #lookedAt = -Infinity;
  /** @type {Map<string, string>} */
  #states = new Map();

  /** @param {(text: string) => void} announce */
  constructor(announce) {
    this.announce = announce;
    this.list = byId("circuits");
  }

  /** Look again, unless that was done a moment ago. @param {number} [pause] milliseconds */
  async look(pause = PERIOD) {
    if (this.#isAsking || performance.now() - this.#lookedAt < pause) return;
    this.#isAsking = true;
    try {
      const response = await fetch("circuits", { cache: "no-store" });
      if (response.ok) this.#show((await response.json()).circuits);
    } catch {
      // The server cannot be reached; the stream says so, and this will be looked at again.
    } finally {
      this.#isAsking = false;
      this.#lookedAt = performance.now();
    }
  }

  /** One is not closed, so that time alone may change it. */
  get isRestless() {
    return [...this.#states.values()].some((state) => state !== "CLOSED" && state !== "DISABLED");
  }

  /** @param {Circuit[]} circuits */
  #show(circuits) {
    for (const { scope, state } of circuits) {
      const before = this.#states.get(scope);
      if (before !== undefined && before !== state) this.announce(`The circuit of ${scope} is ${state.toLowerCase().replaceAll("_", " ")}`);
      this.#states.set(scope, state);
    }
    this.list.replaceChildren(...circuits.map(row));
    byId("circuits-empty").hidden = circuits.length > 0;
    setText(byId("circuits-count"), circuits.length === 0 ? "" : String(circuits.length));
  }
}

/** @param {Circuit} circuit */
function row(circuit) {
  const { scope, state, failure_rate: rate, buffered, failed, refused, retry_after: wait } = circuit;
  const counted = rate === null ? `${failed} of ${buffered} failed` : `${failed} of ${buffered} failed, ${Math.round(rate)} %`;
  const told = [counted, ...(refused > 0 ? [`${refused} refused`] : []), ...(wait !== null && wait > 0 ? [`tries again in ${seconds(wait)}`] : [])];
  return h("li", { class: "circuit", "data-circuit": state },
    h("span", { class: "switch", "aria-hidden": "true" }),
    h("span", { class: "circuit-name" }, scope),
    h("span", { class: "pill" }, state.toLowerCase().replaceAll("_", " ")),
    h("span", { class: "circuit-told" }, told.join(" · ")));
}
