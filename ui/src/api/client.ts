/** Calls of the API. Errors are problems (RFC 9457); the key is asked for when the server wants one. */

import { Store } from "../lib/store.ts";
import type { ApiPath, Page, Problem } from "./types.ts";

export const API = "/api/v1";
const KEY = "minuet.key";

/** What the server answered instead of what was asked for. */
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Problem | null;

  constructor(status: number, problem: Problem | null, message: string) {
    super(message);
    this.status = status;
    this.problem = problem;
    this.name = "ApiError";
  }

  get code(): string {
    return this.problem?.code ?? "";
  }
}

/** Whether somebody has to show a key: null, or what the server said to the last one. */
export const keyWanted = new Store<string | null>(null);
let whenGiven: (() => void)[] = [];

export function giveKey(key: string): void {
  sessionStorage.setItem(KEY, key);
  keyWanted.set(null);
  const waiting = whenGiven;
  whenGiven = [];
  for (const one of waiting) one();
}

export const hasKey = (): boolean => sessionStorage.getItem(KEY) !== null;
export const forgetKey = (): void => {
  sessionStorage.removeItem(KEY);
  location.reload();
};

export function authorization(): Record<string, string> {
  const key = sessionStorage.getItem(KEY);
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

type Values = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface Options {
  /** For the parts of the path in braces. */
  path?: Record<string, string>;
  query?: Values | URLSearchParams;
  body?: unknown;
  /** Do it only if this is still the number of the run's last event. */
  ifMatch?: number;
  signal?: AbortSignal | undefined;
}

export function urlOf(path: ApiPath, { path: parts = {}, query = {} }: Pick<Options, "path" | "query"> = {}): string {
  const full = (path as string).replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parts[name];
    if (value === undefined) throw new Error(`${path}: no value for ${name}`);
    return encodeURIComponent(value);
  });
  const search = query instanceof URLSearchParams ? query : toSearch(query);
  const text = search.toString();
  return API + full + (text ? `?${text}` : "");
}

function toSearch(values: Values): URLSearchParams {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  return search;
}

/** Fetch with the key; if the server wants another one, ask for it and try again. */
export async function fetchWithKey(url: string, init: RequestInit & { headers?: Record<string, string> } = {}): Promise<Response> {
  for (;;) {
    const shown = authorization();
    const answer = await fetch(url, { ...init, headers: { ...init.headers, ...shown } });
    if (answer.status !== 401) return answer;
    const error = await toError(answer);
    // Somebody gave another key while this was on its way.
    if (shown.Authorization !== authorization().Authorization) continue;
    await new Promise<void>((resolve, reject) => {
      whenGiven.push(resolve);
      init.signal?.addEventListener("abort", () => reject(init.signal!.reason as Error));
      keyWanted.set(error.message);
    });
  }
}

async function toError(answer: Response): Promise<ApiError> {
  try {
    const problem = (await answer.json()) as Problem;
    return new ApiError(answer.status, problem, problem.detail || problem.title);
  } catch {
    return new ApiError(answer.status, null, `the server answered ${answer.status}`);
  }
}

export async function call<T>(method: string, path: ApiPath, options: Options = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (options.ifMatch !== undefined) headers["If-Match"] = `"${options.ifMatch}"`;
  const init: RequestInit & { headers: Record<string, string> } = { method, headers };
  if (options.signal) init.signal = options.signal;
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  const answer = await fetchWithKey(urlOf(path, options), init);
  if (!answer.ok) throw await toError(answer);
  return (answer.status === 204 ? null : await answer.json()) as T;
}

export const get = <T>(path: ApiPath, options?: Options): Promise<T> => call<T>("GET", path, options);
export const post = <T>(path: ApiPath, options?: Options): Promise<T> => call<T>("POST", path, { body: {}, ...options });

/** All pages of a list, one after the other. */
export async function* pages<T>(path: ApiPath, options: Options = {}): AsyncGenerator<T[]> {
  const query = new URLSearchParams(options.query instanceof URLSearchParams ? options.query : toSearch(options.query ?? {}));
  for (;;) {
    const page = await get<Page<T>>(path, { ...options, query });
    yield page.items;
    if (page.next === null) return;
    query.set("cursor", page.next);
  }
}
