import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";

interface RowsProps<T> {
  rows: readonly T[];
  height: number;
  label: string;
  /** The number of a row to keep in sight. */
  follow?: number | null;
  /** Whether it grows at its end: that is kept in sight as long as nobody scrolls away from it. */
  tail?: boolean;
  /** It must be positioned absolutely; `top` says where. */
  row: (row: T, top: number) => ReactNode;
  children?: ReactNode;
}

/** A long list of which only the rows in sight are drawn. */
export function Rows<T>({ rows, height, label, follow = null, tail = false, row, children }: RowsProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, size: 800 });
  useEffect(() => {
    const element = box.current!;
    const look = (): void => setSight({ top: element.scrollTop, size: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  useEffect(() => {
    const element = box.current;
    if (follow === null || !element) return;
    const top = follow * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
  }, [follow, height]);
  const before = useRef<{ rows: readonly T[]; tail: boolean }>({ rows: [], tail: false });
  useLayoutEffect(() => {
    const element = box.current!;
    const { rows: old, tail: didGrow } = before.current;
    before.current = { rows, tail };
    if (!tail) return;
    const isAtEnd = element.scrollTop + element.clientHeight > (old.length - 0.5) * height;
    // Rows that are dropped at the beginning take those that somebody reads with them.
    const dropped = old.indexOf(rows[0]!);
    if (isAtEnd || (!didGrow && element.scrollTop === 0)) element.scrollTop = element.scrollHeight;
    else if (dropped > 0) element.scrollTop -= dropped * height;
  }, [rows, height, tail]);
  const first = Math.max(0, Math.floor(sight.top / height) - 10);
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.size) / height) + 10);
  return (
    <div className="rows" ref={box} role="group" aria-label={label} tabIndex={0}>
      <div style={{ position: "relative", height: rows.length * height }}>
        {children}
        {rows.slice(first, last).map((one, at) => row(one, (first + at) * height))}
      </div>
    </div>
  );
}
