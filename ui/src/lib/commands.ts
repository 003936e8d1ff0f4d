/** What the palette (Ctrl-K) offers: every page adds what it can do while it is shown. */

import { useEffect, useRef } from "react";
import type { IconName } from "../components/Icon.tsx";
import { Store } from "./store.ts";

export interface Command {
  label: string;
  icon?: IconName;
  keys?: string;
  run: () => void;
}

export const commands = new Store<readonly Command[]>([]);

export function useCommands(list: readonly Command[]): void {
  const latest = useRef(list);
  latest.current = list;
  const shape = list.map((one) => one.label).join("\n");
  useEffect(() => {
    const mine = latest.current.map((one, at): Command => ({ ...one, run: () => latest.current[at]?.run() }));
    commands.set([...commands.get(), ...mine]);
    return () => commands.set(commands.get().filter((one) => !mine.includes(one)));
  }, [shape]);
}
