import { useEffect, useRef, useState, type ReactNode } from "react";
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

interface TableProps<T> {
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string;
  onOpen: (row: T) => void;
  label: string;
  /** The key of the row that is open beside the table. */
  open?: string | null;
}

/** A table whose rows are chosen with j and k and opened with Enter. */
export function Table<T>({ columns, rows, keyOf, onOpen, label, open = null }: TableProps<T>) {
  const [chosen, setChosen] = useState<string | null>(open);
  const body = useRef<HTMLTableSectionElement>(null);
  const at = chosen === null ? -1 : rows.findIndex((row) => keyOf(row) === chosen);
  const move = (step: number): void => {
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
    if (next) setChosen(keyOf(next));
  };
  useEffect(() => {
    body.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  useShortcuts([
    { keys: "j", label: `${label}: next`, run: () => move(1) },
    { keys: "k", label: `${label}: previous`, run: () => move(-1) },
    { keys: "Enter", label: `${label}: open`, run: () => at >= 0 && onOpen(rows[at]!) },
  ]);
  return (
    <table className="table" aria-label={label}>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.id} scope="col" data-align={column.align} data-minor={column.minor || undefined} style={{ width: column.width }}>
              {column.head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={body}>
        {rows.map((row) => {
          const key = keyOf(row);
          return (
            <tr
              key={key}
              data-key={key}
              aria-selected={key === chosen}
              onClick={(event) => {
                if ((event.target as Element).closest("a, button, input")) return;
                setChosen(key);
                onOpen(row);
              }}
            >
              {columns.map((column) => (
                <td key={column.id} data-align={column.align} data-minor={column.minor || undefined}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
