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

const isChoice = (target: EventTarget | null): boolean => target instanceof HTMLInputElement && /^(checkbox|radio|range)$/.test(target.type);

/** With these keys, boxes are ticked and sliders moved. */
const OF_CHOICES = /^( |Arrow.*|Home|End|Page.*)$/;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && !isChoice(target);
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const name = nameOf(event);
  // A button or a link that has the focus has the key; a form is sent with it, or left alone.
  if (name === "Enter" && event.target instanceof Element && event.target.closest("button, a, summary, form, [role=form]")) return;
  if (isChoice(event.target) && OF_CHOICES.test(event.key)) return;
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
