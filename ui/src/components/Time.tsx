import { useNow } from "../lib/clock.ts";
import { showDuration, showLocal, showPhrase, showRelative, showUtc, type TimeWord } from "../lib/format.ts";
import { timeMode } from "../lib/settings.ts";
import { useStore } from "../lib/store.ts";

/** A moment: relative, local or UTC, as chosen for the whole page. The others are in its tooltip. `word` is what stands before it in a sentence. */
export function Time({ at, word }: { at: string | number | null | undefined; word?: TimeWord | undefined }) {
  const mode = useStore(timeMode);
  if (at === null || at === undefined) return <span className="muted">–</span>;
  const ms = typeof at === "number" ? at : Date.parse(at);
  return (
    <time className="nums" dateTime={new Date(ms).toISOString()} title={`${showLocal(ms)} here\n${showUtc(ms)}`}>
      {mode === "relative" ? <Relative at={ms} word={word} /> : `${word ? `${word} ` : ""}${mode === "local" ? showLocal(ms) : showUtc(ms)}`}
    </time>
  );
}

const MOMENT = /(?:\b(since|until|at) )?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A sentence of the server: moments in it are shown as all others. */
export function Prose({ text }: { text: string }) {
  const parts = text.split(MOMENT);
  return <>{parts.map((part, at) => (at % 3 === 2 ? <Time key={at} at={part} word={parts[at - 1] as TimeWord | undefined} /> : at % 3 === 0 && part))}</>;
}

function Relative({ at, word }: { at: number; word: TimeWord | undefined }) {
  const now = useNow();
  return <>{word ? showPhrase(word, at, now) : showRelative(at, now)}</>;
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

interface CountdownProps {
  until: string | number;
  from?: string | number;
  short?: boolean;
  /** It is renewed: its end is no reason to worry. */
  calm?: boolean;
}

/** How long is left, and how much of the time is over. It becomes red before the end. */
export function Countdown({ until, from, short = false, calm = false }: CountdownProps) {
  const now = useNow();
  const end = typeof until === "number" ? until : Date.parse(until);
  const left = end - now;
  const begin = from === undefined ? null : typeof from === "number" ? from : Date.parse(from);
  const share = begin === null ? null : Math.max(0, Math.min(1, (now - begin) / Math.max(1, end - begin)));
  const tone = calm ? (left < 0 ? "orange" : undefined) : left < 300_000 ? "red" : left < 3_600_000 || (share !== null && share > 0.8) ? "orange" : undefined;
  const text = left <= 0 ? "now" : showDuration(Math.ceil(left / 1000) * 1000);
  return (
    <span className="countdown nums" data-tone={tone} title={`${showLocal(end)} here\n${showUtc(end)}`}>
      {left <= 0 ? (short ? "due" : "The time is over") : short ? text.split(" ").slice(0, 2).join(" ") : `${text} left`}
      {share !== null && !short && (
        <span className="countdown-bar" aria-hidden="true">
          <span style={{ width: `${share * 100}%` }} />
        </span>
      )}
    </span>
  );
}
