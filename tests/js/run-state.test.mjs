// What is gathered of a run from its events.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunState, seconds } from "../../fsm_engine/server/static/tool-stream.js";

/** Events of one call, numbered from 1. */
function play(state, events, now = 0) {
  let seq = state.lastSeq;
  return events.map((event) => state.take({ seq: (seq += 1), at: 100 + seq, ...event }, now));
}
const of = (type, fields = {}) => ({ type, id: "c1", uid: "u1", ...fields });
const execution = (status, fields = {}) => of("tool_execution", { status, attempt: 0, ...fields });
const result = (text, fields = {}) => of("tool_result", { result: { status: "success", text, ...fields }, status: "success" });

test("a call is followed from the first letter of its arguments to its result", () => {
  const state = new RunState();
  play(state, [{ type: "tool_arguments", id: "c1", name: "add", delta: '{"a":' }]);
  const [call] = state.calls.values();
  assert.deepEqual([call.name, call.state, call.written, call.uid], ["add", "WRITING", '{"a":', null]);
  play(state, [
    { type: "tool_arguments", id: "c1", name: "add", delta: "1}" },
    of("tool_call", { name: "add", arguments: { a: 1 } }),
    execution("VALIDATING"),
    execution("ADMITTING"),
    execution("EXECUTING", { attempt: 1 }),
    execution("EXECUTING", { attempt: 1, progress: 0.5, message: "half" }),
  ]);
  assert.deepEqual([call.progress, call.message, call.attempt, call.written], [0.5, "half", 1, '{"a":1}']);
  play(state, [result("1")]);
  assert.deepEqual(call.path.map((step) => step.state), ["PENDING", "VALIDATING", "ADMITTING", "EXECUTING", "COMPLETED"]);
  assert.deepEqual([call.status, call.result.text, call.startedAt, call.endedAt], ["success", "1", 103, 108]);
  assert.equal(state.calls.get("u1"), call);
  assert.equal(state.calls.size, 1);
});

test("retries, their delays, and the fallback with its reason stand on the way", () => {
  const state = new RunState();
  play(state, [
    of("tool_call", { name: "ask", arguments: {} }),
    execution("EXECUTING", { attempt: 1 }),
    execution("RETRYING", { attempt: 1, delay: 0.4 }),
    of("tool_fallback", { reason: "circuit_breaker_open", tool_name: "ask" }),
    execution("FALLING_BACK", { attempt: 1 }),
    of("tool_result", { result: { status: "partial", text: "old" }, status: "partial" }),
  ]);
  const [call] = state.calls.values();
  assert.deepEqual(call.path.map((step) => step.remark), ["", "", "next attempt in 0.40 s", "circuit_breaker_open", ""]);
  assert.deepEqual([call.fallback, call.status, call.state], ["circuit_breaker_open", "partial", "COMPLETED"]);
});

test("a later attempt voids what an earlier one has put out", () => {
  const state = new RunState();
  play(state, [
    execution("EXECUTING", { attempt: 1, chunk: "wrong" }),
    execution("EXECUTING", { attempt: 2 }),
    execution("EXECUTING", { attempt: 2, chunk: "right" }),
  ]);
  assert.deepEqual(state.calls.get("u1").chunks, ["right"]);
});

test("calls that run side by side are kept apart, and stay in the order in which they began", () => {
  const state = new RunState();
  const named = (number, event) => ({ ...event, id: `c${number}`, uid: `u${number}` });
  play(state, [
    { type: "tool_arguments", id: "c1", name: "a", delta: "1" },
    { type: "tool_arguments", id: "c2", name: "b", delta: "2" },
    named(2, of("tool_call", { name: "b", arguments: {} })),
    named(1, of("tool_call", { name: "a", arguments: {} })),
    named(2, result("two")),
    named(1, of("tool_error", { tool_name: "a", error: { code: "CANCELLED", message: "" } })),
  ]);
  assert.deepEqual([...state.calls.values()].map((call) => [call.name, call.written, call.state]), [
    ["a", "1", "CANCELLED"],
    ["b", "2", "COMPLETED"],
  ]);
});

test("an id that comes again in a later turn is another call", () => {
  const state = new RunState();
  play(state, [of("tool_call", { name: "a", arguments: {} }), result("one")]);
  play(state, [
    { type: "tool_arguments", id: "c1", name: "b", delta: "{}" },
    of("tool_call", { uid: "u2", name: "b", arguments: {} }),
    { ...result("two"), uid: "u2" },
  ]);
  assert.deepEqual([...state.calls.values()].map((call) => [call.uid, call.result.text]), [["u1", "one"], ["u2", "two"]]);
});

test("nothing changes a call that has its result", () => {
  const state = new RunState();
  play(state, [of("tool_call", { name: "a", arguments: {} }), result("one"), execution("EXECUTING"), result("two")]);
  const call = state.calls.get("u1");
  assert.deepEqual([call.state, call.result.text, call.path.length], ["COMPLETED", "one", 2]);
});

test("a call that is silent for too long is marked once, unless it waits for a person; a sign of life unmarks it", () => {
  const state = new RunState({ resultTimeout: 1000 });
  play(state, [of("tool_call", { name: "a", arguments: {} })], 0);
  play(state, [{ ...of("tool_call", { name: "b", arguments: {} }), id: "c2", uid: "u2" }], 0);
  play(state, [{ ...execution("AWAITING_APPROVAL", { arguments: { sum: 5 } }), id: "c2", uid: "u2" }], 0);
  assert.deepEqual(state.calls.get("u2").question, { sum: 5 });
  assert.deepEqual(state.markLate(999), []);
  assert.deepEqual(state.markLate(1000).map((call) => call.uid), ["u1"]);
  assert.deepEqual(state.markLate(2000), []);
  assert.equal(state.calls.get("u1").missing, "late");
  play(state, [execution("EXECUTING", { progress: 0.1 })], 2500);
  assert.equal(state.calls.get("u1").missing, null);
});

test("a call that has no result when the run is over will never have one", () => {
  const state = new RunState();
  play(state, [of("tool_call", { name: "a", arguments: {} }), { type: "run_ended", reason: "cancelled" }]);
  assert.equal(state.calls.get("u1").missing, "never");
  assert.equal(state.end.reason, "cancelled");
});

test("events that come again are not taken again", () => {
  const state = new RunState();
  const events = [of("tool_call", { name: "a", arguments: {}, seq: 1 }), execution("VALIDATING", { seq: 2 })];
  play(state, [...events, ...events]);
  assert.equal(state.calls.get("u1").path.length, 2);
});

test("what is missing is counted: left out by the server, lost, or never explained", () => {
  const state = new RunState();
  state.take({ type: "thinking", seq: 1, content: "a" }, 0);
  state.take({ type: "gap", seq: 2, missed: 3, reason: "coalesced" }, 0);
  state.take({ type: "thinking", seq: 5, content: "b" }, 0);
  state.take({ type: "gap", seq: 6, missed: 2, reason: "lost" }, 0);
  state.take({ type: "thinking", seq: 8, content: "c" }, 0);
  state.take({ type: "thinking", seq: 10, content: "d" }, 0);
  assert.deepEqual([state.coalesced, state.lost, state.lastSeq], [3, 3, 10]);
  state.take({ type: "gap", seq: 6, missed: 2, reason: "lost" }, 0);
  assert.equal(state.lost, 3);
});

test("a server that does not know the reader's number tells everything anew", () => {
  const state = new RunState({ after: 40 });
  state.take({ type: "gap", seq: 0, missed: 0, reason: "unknown_id" }, 0);
  state.take(of("tool_call", { name: "a", arguments: {}, seq: 1 }), 0);
  assert.deepEqual([state.lastSeq, state.calls.size, state.lost], [1, 1, 0]);
});

test("pieces of what the model says give way to the whole of it, in their place", () => {
  const state = new RunState();
  const say = (content, piece) => ({ type: "thinking", content, ...(piece ? { piece } : {}) });
  play(state, [say("I ", true), say("look", true), of("tool_call", { name: "a", arguments: {} }), say("I look.", false)]);
  play(state, [result("1"), say("It i", true)]);
  assert.equal(state.answer, "");
  play(state, [{ type: "final_answer", content: "It is 1." }]);
  assert.deepEqual(state.entries.map((entry) => entry.text ?? entry.call.name), ["I look.", "a", "It is 1."]);
  assert.equal(state.answer, "It is 1.");
});

test("a damaged result ends its call all the same, found by what is left of it, and says so", () => {
  const state = new RunState();
  play(state, [of("tool_call", { name: "a", arguments: {} })]);
  state.take({ type: "tool_result", id: "c1", seq: 2, result: { text: "4" } }, 0, "cut");
  const call = state.calls.get("u1");
  assert.deepEqual([call.state, call.result.text, call.isDamaged, state.damaged], ["COMPLETED", "4", true, 1]);
  state.take({ type: "tool_result", seq: 3 }, 0, "cut");
  assert.deepEqual([state.damaged, state.calls.size], [2, 1]);
});

test("odd events do no harm", () => {
  const state = new RunState();
  for (const event of [{}, { type: "new_in_version_2", seq: 1 }, of("tool_execution", { seq: 2 }), of("tool_result", { seq: 3 }), { type: "thinking", seq: 4 }]) {
    state.take(event, 0);
  }
  assert.equal(state.calls.get("u1").state, "COMPLETED");
});

test("lengths of time are written for people", () => {
  assert.deepEqual([0.0001, 0.004, 0.25, 9.99, 12.34, 200].map(seconds), ["<1 ms", "4 ms", "0.25 s", "9.99 s", "12.3 s", "3 min"]);
});
