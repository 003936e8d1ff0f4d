/** Retries at a pace: this page sends them, so that they can be watched and stopped. */

import { post } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { given } from "../../lib/me.ts";
import { Store } from "../../lib/store.ts";

export interface Retrying {
  what: string;
  total: number;
  retried: number;
  refused: { id: string; why: string }[];
  perSecond: number | null;
  state: "running" | "stopped" | "done";
}

/** What is being retried, or was last. It goes on while other pages are looked at. */
export const retrying = new Store<Retrying | null>(null);

/** Dead letters in one request if there is no pace. */
const BATCH = 50;

let isStopped = false;

export const stopRetrying = (): void => {
  isStopped = true;
};

export async function retryAll(ids: readonly string[], perSecond: number | null, what: string): Promise<void> {
  isStopped = false;
  let now: Retrying = { what, total: ids.length, retried: 0, refused: [], perSecond, state: "running" };
  retrying.set(now);
  const size = perSecond === null ? BATCH : Math.max(1, Math.floor(perSecond / 4));
  for (let at = 0; at < ids.length && !isStopped; at += size) {
    const begin = performance.now();
    const part = ids.slice(at, at + size);
    try {
      const { items } = await post<Shape<"Retried">>("/dlq/retry", { body: { ids: part, by: given.get().name } });
      const refused = items.filter((one) => !one.retried).map((one) => ({ id: one.id, why: one.why ?? "" }));
      now = { ...now, retried: now.retried + items.length - refused.length, refused: [...now.refused, ...refused] };
    } catch (error) {
      now = { ...now, refused: [...now.refused, ...part.map((id) => ({ id, why: (error as Error).message }))] };
    }
    retrying.set(now);
    if (perSecond !== null && at + size < ids.length) {
      const rest = (part.length / perSecond) * 1000 - (performance.now() - begin);
      if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
    }
  }
  retrying.set({ ...now, state: isStopped ? "stopped" : "done" });
}
