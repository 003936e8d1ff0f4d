import type { IconName } from "../components/index.ts";

const ICONS: Record<string, IconName> = {
  task: "terminal",
  flow: "workflows",
  transform: "edit",
  decision: "right",
  noop: "more",
  wait: "clock",
  http: "search",
  llm: "star",
  agent: "star",
  workflow: "workflows",
  human: "person",
};

/** How a node type is drawn. */
export const iconOf = (type: string): IconName => ICONS[type] ?? "terminal";
