/** Retries of many dead letters: the server makes them at their pace, and goes on when this page is closed. */

import { useEffect } from "react";
import { get, post } from "../../api/client.ts";
import type { Page, Shape } from "../../api/types.ts";
import { given } from "../../lib/me.ts";
import { Store, useStore } from "../../lib/store.ts";

export type Redrive = Shape<"Redrive">;

/** Between two questions about how far it is. */
const PAUSE = 500;

/** Whether servers go on with it: another one does with what was interrupted. */
export const goesOn = ({ state }: Redrive): boolean => state === "running" || state === "interrupted";

/** What is being retried, or was last while somebody looked. */
const current = new Store<Redrive | null>(null);
let timer: ReturnType<typeof setTimeout> | undefined;

export type Picked = { ids: readonly string[] } | { fingerprint: string };

/** Retry them, at most so many in a second. */
export async function redrive(picked: Picked, perSecond: number | null): Promise<void> {
  current.set(await post<Redrive>("/dlq/redrives", { body: { ...picked, per_second: perSecond, by: given.get().name } }));
  follow();
}

/** Retry one, now. */
export async function retryOne(id: string): Promise<void> {
  const { items } = await post<Shape<"Retried">>("/dlq/{id}/retry", { path: { id }, body: { by: given.get().name } });
  const why = items.find((one) => !one.retried)?.why;
  if (why) throw new Error(why);
}

export async function stopRetrying(id: string): Promise<void> {
  current.set(await post<Redrive>("/dlq/redrives/{id}/stop", { path: { id } }));
  follow();
}

export const hideRetried = (): void => current.set(null);

/** How far it is; also what somebody else has begun. */
export function useRetrying(): Redrive | null {
  useEffect(() => {
    void get<Page<Redrive>>("/dlq/redrives").then(({ items }) => {
      const running = items.find(goesOn);
      if (running && !current.get()) {
        current.set(running);
        follow();
      }
    }, () => undefined);
  }, []);
  return useStore(current);
}

function follow(): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    void get<Page<Redrive>>("/dlq/redrives").then(
      ({ items }) => {
        const known = items.find((one) => one.id === current.get()?.id);
        if (!known) return;
        current.set(known);
        if (goesOn(known)) follow();
      },
      () => follow(),
    );
  }, PAUSE);
}
