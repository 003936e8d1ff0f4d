/** A value that parts of the page share. */

import { useSyncExternalStore } from "react";

export class Store<T> {
  private listeners = new Set<() => void>();

  protected value: T;

  constructor(value: T) {
    this.value = value;
  }

  get = (): T => this.value;

  set = (value: T): void => {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  };

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

/** A value that stays in this browser. */
export class KeptStore<T> extends Store<T> {
  constructor(name: string, initial: T) {
    const key = `minuet.${name}`;
    super(read(key, initial));
    this.subscribe(() => {
      try {
        localStorage.setItem(key, JSON.stringify(this.value));
      } catch {
        // Then it lasts as long as the page.
      }
    });
    addEventListener("storage", (event) => {
      if (event.key === key) this.set(read(key, initial));
    });
  }
}

function read<T>(key: string, initial: T): T {
  try {
    const text = localStorage.getItem(key);
    return text === null ? initial : (JSON.parse(text) as T);
  } catch {
    return initial;
  }
}

export const useStore = <T>(store: Store<T>): T => useSyncExternalStore(store.subscribe, store.get);
