import { memo, useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { useShortcuts } from "../lib/keys.ts";

export interface Column<T> {
  id: string;
  head: ReactNode;
  /** A CSS width; without one, it takes what is left. */
  width?: string;
  align?: "right";
  /** Left out on a narrow screen. */
  minor?: boolean;
  cell: (row: T) => ReactNode;
}

/** Rows that are marked, to do something with all of them. */
export interface Selection {
  keys: ReadonlySet<string>;
  onChange: (keys: ReadonlySet<string>) => void;
}

interface TableProps<T> {
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  onOpen: (row: T) => void;
  label: string;
  /** The key of the row that is open beside the table. */
  open?: string | null;
  selection?: Selection;
}

/** The height of a row until one can be measured. */
const ROW = 36;
/** Longer tables are drawn as far as they are in sight. */
const WHOLE_MAX = 40;
const SPARE = 10;

/** A table whose rows are chosen with j and k, marked with x and opened with Enter. */
export function Table<T>({ columns, rows, keyOf, onOpen, label, open = null, selection }: TableProps<T>) {
  const [chosen, setChosen] = useState<string | null>(open);
  const anchor = useRef<string | null>(null);
  const body = useRef<HTMLTableSectionElement>(null);
  const at = chosen === null ? -1 : rows.findIndex((row) => keyOf(row) === chosen);
  const [first, last, height] = useSight(body, rows.length);
  const move = (step: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, at + step));
    if (!rows[next]) return;
    setChosen(keyOf(rows[next]));
    keepInSight(body.current, next);
  };
  const mark = (key: string, isRange: boolean): void => {
    if (!selection) return;
    const keys = new Set(selection.keys);
    const from = isRange && anchor.current !== null ? rows.findIndex((row) => keyOf(row) === anchor.current) : -1;
    const to = rows.findIndex((row) => keyOf(row) === key);
    if (from >= 0) for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) keys.add(keyOf(row));
    else if (!keys.delete(key)) keys.add(key);
    anchor.current = key;
    selection.onChange(keys);
  };
  useShortcuts([
    { keys: "j", label: `${label}: next`, run: () => move(1) },
    { keys: "k", label: `${label}: previous`, run: () => move(-1) },
    { keys: "Enter", label: `${label}: open`, run: () => at >= 0 && onOpen(rows[at]!) },
    ...(selection
      ? [
          { keys: "x", label: `${label}: mark`, run: () => chosen !== null && at >= 0 && mark(chosen, false) },
          { keys: "X", label: `${label}: mark up to here`, run: () => chosen !== null && at >= 0 && mark(chosen, true) },
        ]
      : []),
  ]);
  const actions = useRef<Actions>(null!);
  actions.current = {
    choose: (row, key, isRange) => {
      setChosen(key);
      if (isRange && selection) mark(key, true);
      else onOpen(row as T);
    },
    mark: (key, isRange) => {
      setChosen(key);
      mark(key, isRange);
    },
  };
  const on = useCallback(() => actions.current, []);
  const all = selection !== undefined && rows.length > 0 && rows.every((row) => selection.keys.has(keyOf(row)));
  return (
    <table className="table" aria-label={label} aria-rowcount={rows.length}>
      <thead>
        <tr>
          {selection && (
            <th scope="col" className="table-mark">
              <input type="checkbox" aria-label="Mark all shown" checked={all} onChange={() => selection.onChange(all ? new Set() : new Set(rows.map(keyOf)))} />
            </th>
          )}
          {columns.map((column) => (
            <th key={column.id} scope="col" data-align={column.align} data-minor={column.minor || undefined} style={{ width: column.width }}>
              {column.head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {first > 0 && <tr className="table-space" style={{ height: first * height }} />}
        {rows.slice(first, last).map((row, offset) => {
          const key = keyOf(row);
          const isMarked = selection ? selection.keys.has(key) : null;
          return <Line key={key} row={row} name={key} number={first + offset + 1} columns={columns as readonly Column<unknown>[]} isChosen={key === chosen} isMarked={isMarked} on={on} />;
        })}
        {last < rows.length && <tr className="table-space" style={{ height: (rows.length - last) * height }} />}
      </tbody>
    </table>
  );
}

interface Actions {
  choose: (row: unknown, key: string, isRange: boolean) => void;
  mark: (key: string, isRange: boolean) => void;
}

interface LineProps {
  row: unknown;
  name: string;
  number: number;
  columns: readonly Column<unknown>[];
  isChosen: boolean;
  /** null: rows cannot be marked. */
  isMarked: boolean | null;
  on: () => Actions;
}

/** A row. It is drawn again only if something about it has changed. */
const Line = memo(({ row, name, number, columns, isChosen, isMarked, on }: LineProps) => (
  <tr
    data-key={name}
    aria-rowindex={number}
    aria-selected={isChosen}
    onClick={(event) => {
      if (!(event.target as Element).closest("a, button, input, label")) on().choose(row, name, event.shiftKey);
    }}
  >
    {isMarked !== null && (
      <td className="table-mark">
        <label>
          <input type="checkbox" aria-label="Mark" checked={isMarked} onClick={(event) => on().mark(name, event.shiftKey)} readOnly />
        </label>
      </td>
    )}
    {columns.map((column) => (
      <td key={column.id} data-align={column.align} data-minor={column.minor || undefined}>
        {column.cell(row)}
      </td>
    ))}
  </tr>
));

const scroller = (body: Element | null): HTMLElement | null => body?.closest<HTMLElement>(".page-body") ?? null;

/** All rows of a table are as high as the first. */
const heightOf = (body: Element | null): number => body?.querySelector("tr[data-key]")?.getBoundingClientRect().height || ROW;

/** Where the rows begin, in what the box scrolls over. */
const topOf = (body: Element, box: Element): number => body.getBoundingClientRect().top - box.getBoundingClientRect().top + box.scrollTop;

function keepInSight(body: Element | null, at: number): void {
  const box = scroller(body);
  if (!body || !box) return;
  const height = heightOf(body);
  // The head stays in sight, above the rows.
  const head = body.previousElementSibling?.getBoundingClientRect().height ?? 0;
  const top = topOf(body, box) + at * height;
  if (top - head < box.scrollTop) box.scrollTop = top - head;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}

/** Which rows are in sight of the page's body, with some to spare; and how high a row is. */
function useSight(body: { current: Element | null }, count: number): [number, number, number] {
  const [sight, setSight] = useState<[number, number, number]>([0, WHOLE_MAX, ROW]);
  const isLong = count > WHOLE_MAX;
  const latest = useRef(sight);
  useLayoutEffect(() => {
    latest.current = sight;
  });
  useEffect(() => {
    const box = isLong ? scroller(body.current) : null;
    if (!box) return;
    const look = (): void => {
      const height = heightOf(body.current);
      const scrolled = box.scrollTop - topOf(body.current!, box);
      const first = Math.max(0, Math.floor(scrolled / height) - SPARE);
      const last = Math.max(SPARE, Math.ceil((scrolled + box.clientHeight) / height) + SPARE);
      // Small movements change nothing: the spare rows are there already.
      const [firstBefore, lastBefore, heightBefore] = latest.current;
      if (height !== heightBefore || Math.abs(first - firstBefore) > SPARE / 2 || Math.abs(last - lastBefore) > SPARE / 2) setSight([first, last, height]);
    };
    look();
    box.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(box);
    return () => {
      box.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [isLong, body]);
  return isLong ? [Math.min(sight[0], Math.max(0, count - 1)), Math.min(sight[1], count), sight[2]] : [0, count, ROW];
}
