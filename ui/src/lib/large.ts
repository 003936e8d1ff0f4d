/** Values that a run keeps apart because they are large: its rows and events only name them. */

import { get } from "../api/client.ts";

export interface Large {
  $blob: string;
  bytes: number;
}

export function isLarge(value: unknown): value is Large {
  if (typeof value !== "object" || value === null || Object.keys(value).length !== 2) return false;
  const { $blob, bytes } = value as Partial<Large>;
  return typeof $blob === "string" && $blob.startsWith("cas://") && typeof bytes === "number";
}

export const loadLarge = (run: string, { $blob }: Large, signal?: AbortSignal): Promise<unknown> =>
  get<unknown>("/blobs/{ref}", { path: { ref: $blob.slice("cas://".length) }, query: { run_id: run }, signal });
