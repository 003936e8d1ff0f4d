/** What somebody has chosen for this browser. */

import { KeptStore } from "./store.ts";

export type Theme = "system" | "light" | "dark";
export type TimeMode = "relative" | "local" | "utc";

export const theme = new KeptStore<Theme>("theme", "system");
export const timeMode = new KeptStore<TimeMode>("time", "relative");

export interface SavedFilter {
  name: string;
  text: string;
}
export const savedFilters = new KeptStore<SavedFilter[]>("filters", []);

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function showTheme(): void {
  const chosen = theme.get();
  document.documentElement.dataset.theme = chosen === "system" ? (systemIsDark.matches ? "dark" : "light") : chosen;
}
theme.subscribe(showTheme);
systemIsDark.addEventListener("change", showTheme);

/** The one after the present one, in a circle. */
export function cycle<T>(store: { get(): T; set(value: T): void }, values: readonly T[]): void {
  store.set(values[(values.indexOf(store.get()) + 1) % values.length]!);
}
