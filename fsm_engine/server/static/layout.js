// Places the states of a lifecycle: in layers from top to bottom, the way Sugiyama, Tagawa and Toda describe it
// ("Methods for Visual Understanding of Hierarchical System Structures", 1981). Knows nothing of the page.

/**
 * @typedef {object} Lifecycle
 * @property {string} name
 * @property {string} initial
 * @property {{ name: string, final: boolean, doc: string }[]} states
 * @property {{ source: string, trigger: string, dest: string, guard: string | null }[]} rows  source "*": any that is
 *   not final
 *
 * @typedef {{ x: number, y: number }} Point
 * @typedef {object} Edge
 * @property {string} source
 * @property {string} dest
 * @property {string} label
 * @property {Point[]} points  from the border of the source to the border of the dest
 *
 * @typedef {object} Layout
 * @property {number} width
 * @property {number} height
 * @property {Map<string, Point>} nodes  their centres
 * @property {Edge[]} edges
 */

export const NODE = { width: 148, height: 34 };
const GAP = { x: 16, y: 36 };
const LANE = 10; // what a line takes up where it passes a layer
const SWEEPS = 12;

/** @typedef {{ id: string, layer: number, width: number, up: Item[], down: Item[], x: number }} Item */

/**
 * @param {Lifecycle} lifecycle
 * @returns {Layout}
 */
export function layOut(lifecycle) {
  const edges = edgesOf(lifecycle);
  const layers = layersOf(lifecycle, edges);
  const { rows, lanes } = fill(lifecycle, edges, layers);
  order(rows);
  place(rows);
  const left = Math.min(...rows.flat().map((item) => item.x - item.width / 2));
  for (const item of rows.flat()) item.x -= left;
  const y = (/** @type {number} */ layer) => layer * (NODE.height + GAP.y) + NODE.height / 2;
  /** @type {Map<string, Point>} */
  const nodes = new Map();
  for (const item of rows.flat()) if (item.width === NODE.width) nodes.set(item.id, { x: item.x, y: y(item.layer) });
  return {
    width: Math.max(...rows.flat().map((item) => item.x + item.width / 2)),
    height: rows.length * (NODE.height + GAP.y) - GAP.y,
    nodes,
    edges: edges.map((edge) => ({ ...edge, points: pointsOf(edge, nodes, lanes, y) })),
  };
}

/** @param {Lifecycle} lifecycle */
function edgesOf(lifecycle) {
  /** @type {Map<string, { source: string, dest: string, label: string, isBack: boolean }>} */
  const edges = new Map();
  for (const { source, trigger, dest, guard } of lifecycle.rows) {
    if (source === "*" || source === dest) continue;
    const label = guard === null ? trigger : `${trigger} [${guard}]`;
    const known = edges.get(`${source} ${dest}`);
    if (known === undefined) edges.set(`${source} ${dest}`, { source, dest, label, isBack: false });
    else known.label += `, ${label}`;
  }
  return [...edges.values()];
}

/**
 * The longest way from the beginning gives a state its layer; final states share the last one. Marks the edges that
 * lead back.
 *
 * @param {Lifecycle} lifecycle @param {ReturnType<typeof edgesOf>} edges
 */
function layersOf(lifecycle, edges) {
  /** @type {Map<string, number>} */
  const layers = new Map();
  /** @type {Set<string>} */
  const onTheWay = new Set();
  /** @type {Set<string>} */
  const done = new Set();
  /** @type {string[]} */
  const finished = [];
  const visit = (/** @type {string} */ state) => {
    onTheWay.add(state);
    for (const edge of edges) {
      if (edge.source !== state) continue;
      if (onTheWay.has(edge.dest)) edge.isBack = true;
      else if (!done.has(edge.dest)) visit(edge.dest);
    }
    onTheWay.delete(state);
    done.add(state);
    finished.push(state);
  };
  visit(lifecycle.initial);
  for (const { name } of lifecycle.states) if (!done.has(name)) visit(name);
  for (const { name } of lifecycle.states) layers.set(name, 0);
  for (const state of finished.reverse()) {
    for (const edge of edges) {
      if (edge.source !== state || edge.isBack) continue;
      layers.set(edge.dest, Math.max(layerOf(layers, edge.dest), layerOf(layers, state) + 1));
    }
  }
  const last = Math.max(-1, ...lifecycle.states.filter((state) => !state.final).map((state) => layerOf(layers, state.name))) + 1;
  for (const { name, final } of lifecycle.states) if (final) layers.set(name, last);
  return layers;
}

/** @param {Map<string, number>} layers @param {string} state */
function layerOf(layers, state) {
  return layers.get(state) ?? 0;
}

/**
 * The layers with the states in them, and with a lane wherever a line passes through.
 *
 * @param {Lifecycle} lifecycle @param {ReturnType<typeof edgesOf>} edges @param {Map<string, number>} layers
 */
function fill(lifecycle, edges, layers) {
  /** @type {Item[][]} */
  const rows = Array.from({ length: Math.max(...layers.values()) + 1 }, () => []);
  /** @type {Map<string, Item>} */
  const items = new Map();
  const add = (/** @type {string} */ id, /** @type {number} */ layer, /** @type {number} */ width) => {
    const item = { id, layer, width, up: [], down: [], x: 0 };
    items.set(id, item);
    rows[layer]?.push(item);
    return item;
  };
  for (const { name } of lifecycle.states) add(name, layerOf(layers, name), NODE.width);
  /** @type {Map<typeof edges[number], Item[]>} */
  const lanes = new Map();
  for (const edge of edges) {
    const [upper, lower] = [edge.source, edge.dest].sort((a, b) => layerOf(layers, a) - layerOf(layers, b));
    /** @type {Item[]} */
    const passed = [];
    let above = /** @type {Item} */ (items.get(/** @type {string} */ (upper)));
    const below = /** @type {Item} */ (items.get(/** @type {string} */ (lower)));
    for (let layer = above.layer + 1; layer < below.layer; layer += 1) {
      const lane = add(`${edge.source} ${edge.dest} ${layer}`, layer, LANE);
      join(above, lane);
      passed.push(lane);
      above = lane;
    }
    if (above.layer !== below.layer) join(above, below);
    lanes.set(edge, passed);
  }
  return { rows, lanes };
}

/** @param {Item} above @param {Item} below */
function join(above, below) {
  above.down.push(below);
  below.up.push(above);
}

/** Put each layer in the order of its neighbours' middle, down and up again; the order with fewest crossings stays. */
function order(/** @type {Item[][]} */ rows) {
  let best = rows.map((row) => [...row]);
  let fewest = crossings(rows);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep += 1) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows.slice(1) : rows.slice(0, -1).reverse()) {
      const side = down ? "up" : "down";
      const index = new Map(rows.flatMap((each) => each.map((item, place) => [item, place])));
      const middle = new Map(row.map((item) => [item, mean(item[side].map((each) => index.get(each) ?? 0), index.get(item) ?? 0)]));
      row.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
    }
    const now = crossings(rows);
    if (now < fewest) [fewest, best] = [now, rows.map((row) => [...row])];
  }
  rows.forEach((row, layer) => row.splice(0, row.length, .../** @type {Item[]} */ (best[layer])));
}

function crossings(/** @type {Item[][]} */ rows) {
  let count = 0;
  for (const row of rows) {
    const next = new Map((rows[(row[0]?.layer ?? 0) + 1] ?? []).map((item, place) => [item, place]));
    /** @type {[number, number][]} */
    const ends = row.flatMap((item, place) => item.down.map((below) => /** @type {[number, number]} */ ([place, next.get(below) ?? 0])));
    for (const [a, b] of ends) for (const [c, d] of ends) if (a < c && b > d) count += 1;
  }
  return count;
}

/** Each item goes as near to the middle of its neighbours as those beside it allow. */
function place(/** @type {Item[][]} */ rows) {
  for (const row of rows) {
    let x = 0;
    for (const item of row) {
      item.x = x + item.width / 2;
      x += item.width + GAP.x;
    }
    for (const item of row) item.x -= (x - GAP.x) / 2;
  }
  for (let round = 0; round < 40; round += 1) {
    for (const each of round % 2 === 0 ? rows : [...rows].reverse()) {
      // What no line leads to would be pushed away a little further each time; it goes to the end instead.
      const row = each.filter((item) => item.up.length + item.down.length > 0);
      const wanted = row.map((item) => mean([...item.up, ...item.down].map((each) => each.x), item.x));
      spread(row, wanted);
    }
  }
  for (const row of rows) {
    const joined = row.filter((item) => item.up.length + item.down.length > 0);
    let end = Math.max(...joined.map((item) => item.x + item.width / 2), -GAP.x);
    for (const item of row.filter((each) => !joined.includes(each))) {
      item.x = end + GAP.x + item.width / 2;
      end = item.x + item.width / 2;
    }
  }
}

/** @param {Item[]} row @param {number[]} wanted */
function spread(row, wanted) {
  const place = (/** @type {number} */ index) => /** @type {Item} */ (row[index]);
  const apart = (/** @type {number} */ index) => (place(index - 1).width + place(index).width) / 2 + GAP.x;
  // The mean of pushing everything to the right and everything to the left keeps the distances and favours no side.
  const right = [...wanted];
  for (let i = 1; i < row.length; i += 1) right[i] = Math.max(at(right, i), at(right, i - 1) + apart(i));
  const left = [...wanted];
  for (let i = row.length - 2; i >= 0; i -= 1) left[i] = Math.min(at(left, i), at(left, i + 1) - apart(i + 1));
  row.forEach((item, i) => (item.x = (at(right, i) + at(left, i)) / 2));
}

/** @param {number[]} numbers @param {number} index */
function at(numbers, index) {
  return /** @type {number} */ (numbers[index]);
}

/** @param {number[]} numbers @param {number} otherwise */
function mean(numbers, otherwise) {
  return numbers.length === 0 ? otherwise : numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}

/**
 * @param {ReturnType<typeof edgesOf>[number]} edge
 * @param {Map<string, Point>} nodes
 * @param {Map<ReturnType<typeof edgesOf>[number], Item[]>} lanes
 * @param {(layer: number) => number} y
 * @returns {Point[]}
 */
function pointsOf(edge, nodes, lanes, y) {
  const from = /** @type {Point} */ (nodes.get(edge.source));
  const to = /** @type {Point} */ (nodes.get(edge.dest));
  const passed = (lanes.get(edge) ?? []).map((lane) => ({ x: lane.x, y: y(lane.layer) }));
  if (from.y > to.y) passed.reverse();
  const way = Math.sign(to.y - from.y);
  // Where lines leave a state they fan out towards where they go.
  const lean = (/** @type {Point} */ node, /** @type {Point} */ next) =>
    node.x + Math.max(-0.32, Math.min(0.32, (next.x - node.x) / 400)) * NODE.width;
  const first = passed[0] ?? to;
  const last = passed.at(-1) ?? from;
  return [
    { x: lean(from, first), y: from.y + (way * NODE.height) / 2 },
    ...passed,
    { x: lean(to, last), y: to.y - (way * NODE.height) / 2 },
  ];
}
