/** A small router: paths with parameters, the state of a page in the query, links that are links. */

import { useCallback, useMemo, useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";

export const BASE = "/ui";

const listeners = new Set<() => void>();
const tell = (): void => {
  for (const one of [...listeners]) one();
};
addEventListener("popstate", tell);

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Go to a path of the page (`/runs?q=…`). */
export function navigate(to: string, { replace = false } = {}): void {
  const url = BASE + to;
  if (url === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", url);
  else {
    history.pushState(null, "", url);
    scrollTo(0, 0);
  }
  tell();
}

/** The path within the page: `/runs/019a…`. */
export function usePath(): string {
  return useSyncExternalStore(subscribe, () => location.pathname.slice(BASE.length).replace(/\/+$/, "") || "/");
}

/** A part of the page's state that is in its address; "" is left out. Changes replace the entry unless told otherwise. */
export function useQueryParam(name: string, initial = ""): [string, (value: string, push?: boolean) => void] {
  const search = useSyncExternalStore(subscribe, () => location.search);
  const value = useMemo(() => new URLSearchParams(search).get(name) ?? initial, [search, name, initial]);
  const set = useCallback(
    (next: string, push = false) => {
      const query = new URLSearchParams(location.search);
      if (next === initial) query.delete(name);
      else query.set(name, next);
      const text = query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
      navigate(location.pathname.slice(BASE.length) + (text ? `?${text}` : ""), { replace: !push });
    },
    [name, initial],
  );
  return [value, set];
}

/** Match `/runs/:id` against a path; its parameters, or null. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const found: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    if (part.startsWith(":")) {
      try {
        found[part.slice(1)] = decodeURIComponent(given[at]!);
      } catch {
        return null;
      }
    } else if (part !== given[at]) return null;
  }
  return found;
}

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  to: string;
}

/** A link within the page. New tabs, copying and middle clicks work as with any other. */
export function Link({ to, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return <a {...rest} href={BASE + to} onClick={follow} />;
}
