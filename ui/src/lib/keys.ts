/** The keyboard: single keys, and sequences such as `g r`. Pages add theirs while they are shown. */

import { useEffect, useRef } from "react";
import { Store } from "./store.ts";

export interface Shortcut {
  /** `j`, `g r`, `/`, `?`, `Escape`, `Ctrl+K`. */
  keys: string;
  label: string;
  run: () => void;
  /** Also while somebody types into a field. */
  everywhere?: boolean;
}

/** All shortcuts at the moment, the newest last: what `?` shows. */
export const shortcuts = new Store<readonly Shortcut[]>([]);

let prefix = "";
let forget: ReturnType<typeof setTimeout> | undefined;

function nameOf(event: KeyboardEvent): string {
  if (event.ctrlKey || event.metaKey) return `Ctrl+${event.key.toUpperCase()}`;
  return event.key;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const name = nameOf(event);
  // A button or a link that has the focus has the key.
  if (name === "Enter" && event.target instanceof Element && event.target.closest("button, a, summary")) return;
  const typing = isTyping(event.target);
  const inDialog = document.querySelector("dialog[open]") !== null;
  const full = prefix ? `${prefix} ${name}` : name;
  prefix = "";
  clearTimeout(forget);
  const found = shortcuts.get().findLast((one) => one.keys === full && (one.everywhere || (!typing && !inDialog)));
  if (found) {
    event.preventDefault();
    found.run();
  } else if (!typing && !inDialog && shortcuts.get().some((one) => one.keys.startsWith(`${full} `))) {
    prefix = full;
    forget = setTimeout(() => (prefix = ""), 1000);
  }
});

/** Have shortcuts while a component is shown. */
export function useShortcuts(list: readonly Shortcut[]): void {
  const latest = useRef(list);
  latest.current = list;
  const shape = list.map((one) => `${one.keys}\0${one.label}\0${one.everywhere ?? false}`).join("\n");
  useEffect(() => {
    const mine = latest.current.map((one, at): Shortcut => ({ ...one, run: () => latest.current[at]?.run() }));
    shortcuts.set([...shortcuts.get(), ...mine]);
    return () => shortcuts.set(shortcuts.get().filter((one) => !mine.includes(one)));
  }, [shape]);
}
