/** Who decides here: the owner of the key; where no key is needed, the name that somebody has given. */

import { get } from "../api/client.ts";
import type { Approval, Shape } from "../api/types.ts";
import { useQuery } from "../api/useQuery.ts";
import { KeptStore, useStore } from "./store.ts";

export interface Me {
  /** "": nobody has said it yet. */
  name: string;
  groups: readonly string[];
  /** Whether the name is given here, not by a key. */
  isGiven: boolean;
  roles: readonly string[];
}

export const given = new KeptStore<{ name: string; groups: string[] }>("me", { name: "", groups: [] });

export function useMe(): Me | null {
  const own = useStore(given);
  const { data } = useQuery("whoami", (signal) => get<Shape<"Sender">>("/whoami", { signal }));
  if (!data) return null;
  if (data.name !== null) return { name: data.name, groups: data.groups, isGiven: false, roles: data.roles };
  return { name: own.name, groups: [...data.groups, ...own.groups], isGiven: true, roles: data.roles };
}

/** Why somebody cannot decide an approval; null: nothing is in the way. */
export function whyNot(me: Me, asked: Approval): string | null {
  if (asked.status !== "pending") return "It is decided.";
  if (!me.roles.includes("approver")) return "Your API key does not have the role approver.";
  if (asked.decisions.some((one) => one.by === me.name)) return "You have decided. Each person counts once.";
  if (asked.four_eyes && asked.requester === null) return "Nobody can decide: the run must not be decided by the person who started it, and does not say who that is.";
  if (asked.four_eyes && asked.requester === me.name) return "You have started this run: somebody else has to decide.";
  if (asked.approvers.length && ![me.name, ...me.groups].some((one) => asked.approvers.includes(one))) {
    return `${me.name || "Somebody without a name"} is not one of those who were asked, nor in their group.`;
  }
  return null;
}
