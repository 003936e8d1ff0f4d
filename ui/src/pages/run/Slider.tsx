import { useEffect, useState, type CSSProperties } from "react";
import { Button } from "../../components/index.ts";
import { authorOf, decodeScope, showScope } from "../../fold/scope.ts";
import { showCount, showDuration, showLocal, showUtc } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { timeMode } from "../../lib/settings.ts";
import { useStore } from "../../lib/store.ts";
import type { RunModel } from "./model.ts";

/** Moves the whole page over the events of the run: graph, timeline, history and data. */
export function Slider({ model, onMove }: { model: RunModel; onMove: (at: number | null) => void }) {
  const { history } = model;
  const last = history.seq;
  const mode = useStore(timeMode);
  // The header has the day.
  const clock = (ms: number): string => (mode === "local" ? showLocal(ms) : showUtc(ms)).slice("2026-11-18 ".length);
  const at = model.at ?? last;
  const [playing, setPlaying] = useState(false);
  const step = (by: number): void => onMove(at + by >= last ? null : Math.max(1, at + by));
  useEffect(() => {
    if (!playing) return;
    // Five seconds for all of it, but no faster than one can see.
    const by = Math.max(1, Math.round(last / 300));
    const timer = setInterval(() => {
      const next = (model.at ?? 0) + by;
      if (next >= history.seq) setPlaying(false);
      onMove(next >= history.seq ? null : next);
    }, Math.max(16, Math.min(400, 5000 / last)));
    return () => clearInterval(timer);
  }, [playing, last, model, history, onMove]);
  const play = (): void => {
    if (!playing && model.isLive) onMove(1);
    setPlaying(!playing);
  };
  useShortcuts([
    { keys: "ArrowLeft", label: "One event back", run: () => step(-1) },
    { keys: "ArrowRight", label: "One event on", run: () => step(1) },
    { keys: "p", label: "Play the history", run: play },
    { keys: "l", label: "Back to now", run: () => onMove(null) },
  ]);
  const event = model.event(at);
  const where = typeof event?.data.node === "string" ? authorOf(event.data.node) + showScope(decodeScope(String(event.data.scope ?? ""))) : "";
  return (
    <div className="slider">
      <Button kind="plain" icon={playing ? "pause" : "play"} aria-label={playing ? "Stop" : "Play the history"} onClick={play} />
      <input
        type="range"
        min={1}
        max={Math.max(1, last)}
        value={at}
        style={{ "--done": `${last > 1 ? ((at - 1) / (last - 1)) * 100 : 100}%` } as CSSProperties}
        aria-label="Event"
        aria-valuetext={event ? `event ${at}: ${event.type}` : "no event"}
        onChange={(change) => onMove(Number(change.target.value) >= last ? null : Number(change.target.value))}
      />
      <span className="slider-what truncate nums">
        {showCount(at)} / {showCount(last)}{" "}
        {model.isLoading ? (
          <span className="muted">loading…</span>
        ) : event && (
          <span className="muted">
            <code>{event.type}</code> {where} {mode === "relative" ? `+${showDuration(model.cursor.time - history.begin)}` : clock(model.cursor.time)}
          </span>
        )}
      </span>
      <Button kind={model.isLive ? "plain" : "primary"} disabled={model.isLive} onClick={() => onMove(null)}>
        {model.isOver ? "The end" : "Now"}
      </Button>
    </div>
  );
}
