/** Decisions: sending one, and what came of it. */

import { ApiError, post } from "../../api/client.ts";
import type { Approval } from "../../api/types.ts";
import { readProblems, type Pointer } from "../../form/schema.ts";
import { shellOption, shellWord } from "../../lib/format.ts";
import type { Me } from "../../lib/me.ts";

export type Verdict = "approve" | "reject";

export type Outcome =
  | { kind: "done" }
  /** Somebody else was first. */
  | { kind: "late"; approval: Approval; why: string }
  | { kind: "invalid"; problems: Map<Pointer, string> }
  | { kind: "refused"; why: string };

export async function decide(id: string, decision: Verdict, me: Me, comments: string, data: unknown): Promise<Outcome> {
  const person = me.isGiven ? { decided_by: me.name, groups: me.groups } : {};
  try {
    await post("/approvals/{id}/decide", { path: { id }, body: { decision, comments, data: data ?? null, ...person } });
    return { kind: "done" };
  } catch (error) {
    if (!(error instanceof ApiError)) return { kind: "refused", why: "The server does not answer. Nothing was decided as far as this page knows: try again, the same decision counts once." };
    if (error.status === 409 && error.problem?.approval) return { kind: "late", approval: error.problem.approval, why: error.message };
    if (error.status === 422 && error.problem?.problems?.length) return { kind: "invalid", problems: readProblems(error.problem.problems, "data") };
    return { kind: "refused", why: error.message };
  }
}

export function commandFor(asked: Approval, decision: Verdict, me: Me | null, comments: string, data: unknown): string {
  const words = ["minuet", "approvals", decision, shellWord(asked.id)];
  if (me?.isGiven && me.name) words.push("--as", shellWord(me.name));
  if (me?.isGiven) for (const group of me.groups) words.push("--group", shellWord(group));
  if (comments) words.push(shellOption("--comment", comments));
  if (data !== undefined && asked.form) words.push("-d", shellWord(JSON.stringify(data)));
  return words.join(" ");
}

/** What follows when the time is over, in words. */
export const AT_TIMEOUT: Record<string, string> = {
  approve: "it counts as approved",
  reject: "it counts as not approved, as if somebody had rejected it",
  fail: "the node fails",
  reassign: "others are asked instead",
};

/** How many have approved, of those who must. */
export const agreed = (asked: Approval): number => new Set(asked.decisions.filter((one) => one.decision === "approve").map((one) => one.by)).size;
