/** The shapes of the API, from its OpenAPI document: `npm run schema` writes `schema.d.ts` again. */

import type { components, paths } from "./schema.d.ts";

type Schemas = components["schemas"];
export type Shape<Name extends keyof Schemas> = Schemas[Name];

export type RunRow = Shape<"ListedRun">;
export type Run = Shape<"Run">;
export type Approval = Shape<"Approval">;
export type DeadLetter = Shape<"DeadLetter">;
export type LetterGroup = Shape<"LetterGroup">;
export type Worker = Shape<"Worker">;
export type Queue = Shape<"Queue">;
export type Workflow = Shape<"Workflow">;
export type Explanation = Shape<"Explanation">;
export type LogLine = Shape<"LogLine">;
export type FeedEvent = Shape<"FeedEvent">;
export type Problem = Shape<"Problem">;

/** All paths of the API below its prefix: a misspelt one does not compile. */
export type ApiPath = keyof paths extends infer P ? (P extends `/api/v1${infer Rest}` ? Rest : never) : never;

export interface Page<T> {
  items: T[];
  next: string | null;
}
