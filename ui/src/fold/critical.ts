/** What a run has waited for in the end: the chain of instances, each of which made the next one ready. */

import type { Cursor } from "./cursor.ts";

/** The places of the critical path at the moment of the cursor. */
export function criticalPath({ history, tokens, time }: Cursor): Set<number> {
  let last = -1;
  let latest = -Infinity;
  tokens.forEach((token, place) => {
    // What still goes on ends after everything that is over.
    if (!token || token.skip || token.outcome === "cancelled" || token.outcome === "superseded") return;
    const end = token.endedAt ?? time + 1;
    if (end >= latest) {
      latest = end;
      last = place;
    }
  });
  const found = new Set<number>();
  for (let place = last; place >= 0 && !found.has(place); place = history.causes[place] ?? -1) found.add(place);
  return found;
}
