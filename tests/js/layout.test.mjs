// Where the states of a lifecycle are put.

import assert from "node:assert/strict";
import { test } from "node:test";

import { layOut, NODE } from "../../fsm_engine/server/static/layout.js";

const state = (name, final = false) => ({ name, final, doc: "" });
const row = (source, dest, trigger = "go", guard = null) => ({ source, trigger, dest, guard });
const LIFECYCLE = {
  name: "test", initial: "new",
  states: [state("new"), state("checked"), state("run"), state("wait"), state("good", true), state("bad", true), state("gone", true)],
  rows: [
    row("new", "checked"), row("checked", "run"), row("checked", "bad", "go", "refused"), row("run", "good"),
    row("run", "wait"), row("wait", "run"), row("run", "bad"), row("run", "bad", "stop"), row("run", "run"), row("*", "gone", "cancel"),
  ],
};

test("states stand below those that lead to them, ends at the bottom, and none covers another", () => {
  const { nodes, width, height } = layOut(LIFECYCLE);
  const y = (name) => nodes.get(name).y;
  assert.equal(nodes.size, 7);
  assert.ok(y("new") < y("checked") && y("checked") < y("run") && y("run") < y("wait") && y("wait") < y("good"));
  assert.deepEqual([y("bad"), y("gone")], [y("good"), y("good")]);
  const all = [...nodes.values()];
  for (const [place, a] of all.entries()) {
    assert.ok(a.x >= NODE.width / 2 - 0.01 && a.x <= width - NODE.width / 2 + 0.01 && a.y <= height);
    for (const b of all.slice(place + 1)) assert.ok(a.y !== b.y || Math.abs(a.x - b.x) >= NODE.width);
  }
});

test("each pair of states has one line, which begins and ends at their borders; what any state may do has none", () => {
  const { nodes, edges } = layOut(LIFECYCLE);
  assert.deepEqual(edges.map((edge) => `${edge.source}-${edge.dest}`), [
    "new-checked", "checked-run", "checked-bad", "run-good", "run-wait", "wait-run", "run-bad",
  ]);
  assert.equal(edges.at(-1).label, "go, stop");
  for (const { source, dest, points } of edges) {
    const way = Math.sign(nodes.get(dest).y - nodes.get(source).y);
    assert.equal(points[0].y, nodes.get(source).y + (way * NODE.height) / 2);
    assert.equal(points.at(-1).y, nodes.get(dest).y - (way * NODE.height) / 2);
    for (const point of points.slice(1, -1)) {
      for (const node of nodes.values()) assert.ok(node.y !== point.y || Math.abs(node.x - point.x) > NODE.width / 2, "a line under a state");
    }
  }
});

test("a lifecycle without an end, and one with a single state, can be drawn too", () => {
  const circuit = { name: "circuit", initial: "CLOSED", states: [state("CLOSED"), state("OPEN")], rows: [row("CLOSED", "OPEN"), row("OPEN", "CLOSED")] };
  assert.equal(layOut(circuit).edges.length, 2);
  assert.equal(layOut({ name: "one", initial: "a", states: [state("a", true)], rows: [] }).nodes.size, 1);
});
