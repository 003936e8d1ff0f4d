/**
 * Fold a history at every event, for the tests that compare it with the server's answers.
 *
 * Reads `{"graph", "events"}` from its input, and writes one line for each event: the status of the run
 * and its nodes.
 */

import { readFileSync } from "node:fs";
import { Cursor } from "../src/fold/cursor.ts";
import { History } from "../src/fold/history.ts";
import { View } from "../src/fold/view.ts";

const { graph, events } = JSON.parse(readFileSync(0, "utf8"));
const history = new History();
history.append(events);
const cursor = new Cursor(history);
const view = new View(graph, cursor);

const moment = (at) => (at === null ? null : new Date(at).toISOString());

function show() {
  view.update();
  const nodes = {};
  for (const [id, node] of view.nodes) {
    const { waiting } = node;
    nodes[id] = {
      status: node.status,
      attempts: node.attempts,
      error: node.error,
      reason: node.reason || null,
      started_at: moment(node.startedAt),
      ended_at: moment(node.endedAt),
      instances: node.instances,
      items: node.items,
      event: node.event,
      waiting_for: waiting && { kind: waiting.kind, key: waiting.key, since: moment(waiting.since), until: moment(waiting.until) },
    };
  }
  return JSON.stringify({ seq: cursor.seq, status: cursor.run.status, nodes });
}

const forth = [];
for (let seq = 1; seq <= history.seq; seq++) {
  cursor.moveTo(seq);
  forth.push(show());
}
// Back again, and by jumps: the state must not depend on the way.
for (const step of [1, 3, 7]) {
  for (let seq = history.seq; seq >= 1; seq -= step) {
    cursor.moveTo(seq);
    if (show() !== forth[seq - 1]) throw new Error(`event ${seq} differs on the way back`);
  }
}
process.stdout.write(`${forth.join("\n")}\n`);
