// The lifecycle as a picture in which the way of one call is drawn while it happens.

import { byId, setText, stateWords, svg } from "./dom.js";
import { layOut, NODE } from "./layout.js";
import { seconds } from "./tool-stream.js";

/** @typedef {import("./tool-stream.js").CallState} CallState */
/** @typedef {import("./layout.js").Point} Point */

const MARGIN = 10;

export class Diagram {
  /** @type {CallState | null} */
  call = null;
  #drawn = 0;
  /** @type {string | null} */
  #key = null;
  /** @type {Map<string, SVGGElement>} */
  #nodes = new Map();
  /** @type {Map<string, SVGPathElement>} */
  #edges = new Map();
  /** @type {Map<string, number>} */
  #visits = new Map();

  /** @param {import("./layout.js").Lifecycle} lifecycle */
  constructor(lifecycle) {
    this.layout = layOut(lifecycle);
    this.extra = svg("g", {});
    this.element = this.#draw(lifecycle);
    this.caption = byId("diagram-caption");
    byId("diagram").replaceChildren(this.element);
  }

  /** Show a call's way: what is new of it, or all of it if it is another call than before. @param {CallState | null} call */
  show(call) {
    if (call !== this.call || call?.key !== this.#key) this.#clear(call);
    this.call = call;
    if (call === null) return;
    for (; this.#drawn < call.path.length; this.#drawn += 1) {
      const step = /** @type {import("./run-state.js").Step} */ (call.path[this.#drawn]);
      const before = call.path[this.#drawn - 1];
      if (before !== undefined) this.#go(before.state, step.state);
      this.#enter(step.state);
    }
    this.tick(null);
  }

  /** @param {number | null} now  seconds since the epoch, by the server's clock */
  tick(now) {
    const { call } = this;
    const step = call?.path.at(-1);
    if (call === null || step === undefined) return;
    const name = `${call.name} (${call.id})`;
    if (call.endedAt !== null) {
      const steps = call.path.length - 1;
      setText(this.caption, `${name}: ${stateWords(call.state)} after ${steps} ${steps === 1 ? "step" : "steps"}, ${seconds(call.endedAt - call.startedAt)}`);
    } else {
      const since = now === null ? "" : ` for ${seconds(Math.max(0, now - step.at))}`;
      setText(this.caption, `${name}: ${call.missing === "unknown" ? "last heard of in " : ""}${stateWords(step.state)}${since}${step.remark === "" ? "" : `, ${step.remark}`}`);
    }
  }

  /** @param {CallState | null} call */
  #clear(call) {
    this.#drawn = 0;
    this.#key = call?.key ?? null;
    this.#visits.clear();
    this.extra.replaceChildren();
    for (const each of [...this.#nodes.values(), ...this.#edges.values()]) each.classList.remove("is-visited", "is-current");
    for (const node of this.#nodes.values()) setText(/** @type {Node} */ (node.querySelector(".visits")), "");
    setText(this.caption, "Choose a call to see its way.");
  }

  /** @param {string} state */
  #enter(state) {
    for (const each of this.#nodes.values()) each.classList.remove("is-current");
    const node = this.#nodes.get(state);
    if (node === undefined) return; // a state of a lifecycle that this page has not been told of
    node.classList.add("is-visited", "is-current");
    const visits = (this.#visits.get(state) ?? 0) + 1;
    this.#visits.set(state, visits);
    if (visits > 1) setText(/** @type {Node} */ (node.querySelector(".visits")), `×${visits}`);
  }

  /** @param {string} from @param {string} to */
  #go(from, to) {
    for (const each of this.#edges.values()) each.classList.remove("is-current");
    let edge = this.#edges.get(`${from} ${to}`);
    if (edge === undefined || edge.classList.contains("is-extra")) edge = this.#goStraight(from, to);
    edge?.classList.add("is-visited", "is-current");
    if (edge !== undefined) {
      const length = edge.getTotalLength();
      edge.style.setProperty("--length", String(length));
      edge.parentNode?.append(edge); // above the others
    }
  }

  /** A move that any state may make is not drawn until it is made. @param {string} from @param {string} to */
  #goStraight(from, to) {
    const [a, b] = [this.layout.nodes.get(from), this.layout.nodes.get(to)];
    if (a === undefined || b === undefined || from === to) return undefined;
    const points = [{ x: a.x, y: a.y + NODE.height / 2 }, { x: b.x, y: b.y - NODE.height / 2 }];
    const edge = svg("path", { class: "edge is-extra", "data-state": to, d: curve(points), "marker-end": "url(#arrow)" });
    this.extra.append(edge);
    return edge;
  }

  /** @param {import("./layout.js").Lifecycle} lifecycle */
  #draw(lifecycle) {
    const { width, height, nodes, edges } = this.layout;
    const lines = svg("g", {});
    for (const edge of edges) {
      const path = svg("path", { class: "edge", d: curve(edge.points), "marker-end": "url(#arrow)" },
        svg("title", {}, `${edge.source} → ${edge.dest}: ${edge.label}`));
      this.#edges.set(`${edge.source} ${edge.dest}`, path);
      lines.append(path);
    }
    const boxes = lifecycle.states.map((state) => this.#box(state, /** @type {Point} */ (nodes.get(state.name))));
    const picture = svg("svg", {
      viewBox: `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`, role: "img", "aria-labelledby": "diagram-caption", class: "diagram",
    }, svg("defs", {}, arrow()), lines, this.extra, ...boxes);
    picture.style.maxWidth = `${(width + 2 * MARGIN) * 1.05}px`;
    return picture;
  }

  /** @param {import("./layout.js").Lifecycle["states"][number]} state @param {Point} centre */
  #box(state, centre) {
    const box = svg("g", { class: `node${state.final ? " is-final" : ""}`, "data-state": state.name, transform: `translate(${centre.x} ${centre.y})` },
      svg("title", {}, `${state.name}: ${state.doc}`),
      svg("rect", { x: -NODE.width / 2, y: -NODE.height / 2, width: NODE.width, height: NODE.height, rx: state.final ? NODE.height / 2 : 8 }),
      svg("text", { class: "name", "text-anchor": "middle", y: 4.5 }, shortName(state.name)),
      svg("text", { class: "visits", "text-anchor": "end", x: NODE.width / 2 - 2, y: -NODE.height / 2 - 4 }));
    this.#nodes.set(state.name, box);
    return box;
  }
}

function arrow() {
  return svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto-start-reverse" },
    svg("path", { d: "M0,0.8 L7.4,4 L0,7.2 z" }));
}

/** A line that leaves and arrives upright. @param {Point[]} points */
function curve(points) {
  const [first, ...rest] = /** @type {[Point, ...Point[]]} */ (points);
  let d = `M${round(first.x)},${round(first.y)}`;
  let from = first;
  for (const to of rest) {
    const bend = (to.y - from.y) / 2;
    d += ` C${round(from.x)},${round(from.y + bend)} ${round(to.x)},${round(to.y - bend)} ${round(to.x)},${round(to.y)}`;
    from = to;
  }
  return d;
}

/** @param {number} number */
function round(number) {
  return Math.round(number * 10) / 10;
}

/** @param {string} name */
function shortName(name) {
  const words = stateWords(name);
  return words.length > 18 ? `${words.slice(0, 17)}…` : words;
}

