/** What somebody can do to a run or to one of its nodes: how it is asked for, and its twin on the command line. */

import type { Options } from "../../api/client.ts";
import type { ApiPath } from "../../api/types.ts";
import { shellOption, shellWord } from "../../lib/format.ts";

export type ActionName = "cancel" | "pause" | "resume" | "retry" | "rollback" | "skip" | "set_output" | "signal" | "take_back";

export interface Asked {
  action: ActionName;
  /** As people write it: `check[2]`. */
  node?: string;
  /** Of a signal. */
  name?: string;
}

/** What somebody has filled in. Texts are as they were typed. */
export interface Given {
  why: string;
  data: string;
  name: string;
  to: string;
  undone: boolean;
}

interface Action {
  title: string;
  does: string;
  said: string;
  isDanger?: boolean;
  /** What is asked for. */
  fields: readonly (keyof Given)[];
  needsWhy?: boolean;
  /** It is refused if the run has gone on since its preview, and something else would happen now. */
  isGuarded?: boolean;
}

export const ACTIONS: Record<ActionName, Action> = {
  cancel: { title: "Cancel this run", does: "Cancel", said: "Cancelled.", isDanger: true, fields: ["why"] },
  pause: { title: "Pause this run", does: "Pause", said: "Paused: what runs may finish.", fields: [] },
  resume: { title: "Resume this run", does: "Resume", said: "It goes on.", fields: [] },
  retry: { title: "Retry this run", does: "Retry", said: "What failed runs again.", fields: [], isGuarded: true },
  rollback: { title: "Undo this run", does: "Undo", said: "It is being undone.", isDanger: true, fields: ["to"], isGuarded: true },
  skip: { title: "Skip", does: "Skip", said: "Skipped.", fields: ["why"], needsWhy: true, isGuarded: true },
  set_output: { title: "Set the output of", does: "Set the output", said: "The output is set.", fields: ["data", "why"], needsWhy: true, isGuarded: true },
  signal: { title: "Send a signal", does: "Send", said: "The signal is sent.", fields: ["name", "data"] },
  take_back: { title: "Take back", does: "Take back", said: "It is taken back: another worker may have it.", fields: ["why"], isGuarded: true },
};

/** Everything at run level that can make sense for a status; the preview says whether it does now. */
export function runActions(status: string, canUndo: boolean): ActionName[] {
  if (status === "PENDING" || status === "RUNNING") return ["pause", "cancel", "signal"];
  if (status === "PAUSED") return ["resume", "cancel", "signal"];
  if (status === "COMPENSATING") return ["pause"];
  const undo: ActionName[] = canUndo ? ["rollback"] : [];
  return status === "COMPLETED" ? undo : ["retry", ...undo];
}

/** The same for a node. */
export function nodeActions(runStatus: string, status: string): ActionName[] {
  const isOpen = runStatus === "RUNNING" || runStatus === "PAUSED";
  if (isOpen && status === "RUNNING") return ["take_back", "skip", "set_output"];
  if (isOpen && (status === "WAITING" || status === "QUEUED")) return ["skip", "set_output"];
  return runStatus === "FAILED" && status === "FAILED" ? ["retry"] : [];
}

/** The data that was typed; an empty text is null. Throws if it is not JSON. */
export function readData(text: string): unknown {
  return text.trim() ? (JSON.parse(text) as unknown) : null;
}

export function twinOf(run: string, { action, node }: Asked, given: Given): string {
  const words = action === "signal" ? ["minuet signal", run] : [`minuet runs ${action.replace("_", "-")}`, run];
  // A whole run is retried.
  if (node && action !== "signal" && action !== "retry") words.push(shellWord(node));
  const { fields } = ACTIONS[action];
  if (fields.includes("data") && (action === "set_output" || given.data.trim())) words.push(shellOption("--data", given.data.trim() || "null"));
  if (action === "cancel" && given.why) words.push(shellOption("--reason", given.why));
  else if (fields.includes("why") && (given.why || ACTIONS[action].needsWhy)) words.push(shellOption("--why", given.why || "WHY"));
  if (given.to && action === "rollback") words.push(shellOption("--to", given.to));
  if (given.undone && action === "retry") words.push("--undone");
  if (action === "signal") words.push(...(given.name.startsWith("-") ? ["--"] : []), shellWord(given.name || "NAME"));
  return words.join(" ");
}

/** The call of the API that does it. */
export function callOf(run: string, { action, node }: Asked, given: Given): [ApiPath, Options] {
  const path: Record<string, string> = { run_id: run };
  switch (action) {
    case "cancel":
      return ["/runs/{run_id}/cancel", { path, body: given.why ? { reason: given.why } : {} }];
    case "pause":
    case "resume":
      return [`/runs/{run_id}/${action}`, { path, body: {} }];
    case "retry":
      return ["/runs/{run_id}/retry", { path, body: { undone: given.undone } }];
    case "rollback":
      return ["/runs/{run_id}/rollback", { path, body: { to: given.to || null } }];
    case "signal":
      return ["/runs/{run_id}/signals/{name}", { path: { ...path, name: given.name }, body: { data: readData(given.data) } }];
    case "set_output":
      return ["/runs/{run_id}/nodes/{node}/set-output", { path: { ...path, node: node! }, body: { data: readData(given.data), why: given.why } }];
    case "skip":
      return ["/runs/{run_id}/nodes/{node}/skip", { path: { ...path, node: node! }, body: { why: given.why } }];
    case "take_back":
      return ["/runs/{run_id}/nodes/{node}/take-back", { path: { ...path, node: node! }, body: { why: given.why } }];
  }
}

/** What a preview asks about: the body of `POST /runs/{run_id}/preview`. */
export function previewOf({ action, node }: Asked, given: Given): Record<string, unknown> {
  const { fields } = ACTIONS[action];
  return {
    action,
    ...(node && action !== "signal" && action !== "retry" ? { node } : {}),
    ...(fields.includes("data") ? { data: readData(given.data) } : {}),
    ...(fields.includes("name") ? { name: given.name } : {}),
    ...(fields.includes("to") && given.to ? { to: given.to } : {}),
  };
}
