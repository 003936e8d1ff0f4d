import { useNow } from "../lib/clock.ts";
import { showDuration, showLocal, showRelative, showUtc } from "../lib/format.ts";
import { timeMode } from "../lib/settings.ts";
import { useStore } from "../lib/store.ts";

/** A moment: relative, local or UTC, as chosen for the whole page. The others are in its tooltip. */
export function Time({ at }: { at: string | number | null | undefined }) {
  const mode = useStore(timeMode);
  if (at === null || at === undefined) return <span className="muted">–</span>;
  const ms = typeof at === "number" ? at : Date.parse(at);
  return (
    <time className="nums" dateTime={new Date(ms).toISOString()} title={`${showLocal(ms)} here\n${showUtc(ms)}`}>
      {mode === "relative" ? <Relative at={ms} /> : mode === "local" ? showLocal(ms) : showUtc(ms)}
    </time>
  );
}

function Relative({ at }: { at: number }) {
  return <>{showRelative(at, useNow())}</>;
}

interface DurationProps {
  ms?: number | null | undefined;
  /** Instead of `ms`: it goes on since then. */
  since?: string | number | null | undefined;
}

/** How long something took, or takes. */
export function Duration({ ms, since }: DurationProps) {
  if (ms !== null && ms !== undefined) return <span className="nums">{showDuration(ms)}</span>;
  if (since !== null && since !== undefined) return <Growing since={typeof since === "number" ? since : Date.parse(since)} />;
  return <span className="muted">–</span>;
}

function Growing({ since }: { since: number }) {
  return <span className="nums">{showDuration(Math.max(0, Math.floor((useNow() - since) / 1000) * 1000))}</span>;
}
