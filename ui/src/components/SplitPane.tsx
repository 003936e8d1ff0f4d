import { useRef, type KeyboardEvent, type PointerEvent, type ReactNode } from "react";
import { KeptStore, useStore } from "../lib/store.ts";

const widths = new KeptStore<Record<string, number>>("panes", {});
const LEAST = 260;

/** What is beside the main part can be made wider and narrower; the browser remembers it. */
export function SplitPane({ name, side, children, width: initial = 400 }: { name: string; side: ReactNode; children: ReactNode; width?: number }) {
  const all = useStore(widths);
  const split = useRef<HTMLDivElement>(null);
  const width = all[name] ?? initial;
  const set = (next: number): void => {
    const most = (split.current?.clientWidth ?? 1200) - 320;
    widths.set({ ...widths.get(), [name]: Math.round(Math.max(LEAST, Math.min(next, most))) });
  };
  const drag = (event: PointerEvent<HTMLDivElement>): void => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    set(split.current!.getBoundingClientRect().right - event.clientX);
  };
  const press = (event: KeyboardEvent): void => {
    const wider = event.key === "ArrowLeft" ? 24 : event.key === "ArrowRight" ? -24 : 0;
    if (!wider) return;
    event.preventDefault();
    set(width + wider);
  };
  return (
    <div className="split" ref={split}>
      <div className="split-main">{children}</div>
      {side && (
        <>
          <div
            className="split-handle"
            role="separator"
            aria-orientation="vertical"
            aria-label="Width of the panel"
            aria-valuenow={width}
            tabIndex={0}
            onKeyDown={press}
            onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
            onPointerMove={drag}
          />
          <aside className="split-side" style={{ width }}>
            {side}
          </aside>
        </>
      )}
    </div>
  );
}
