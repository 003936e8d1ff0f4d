/** All pages: their paths, what leads to them, and their code, which is loaded when it is needed. */

import { lazy, type ComponentType, type LazyExoticComponent } from "react";
import type { IconName } from "../components/index.ts";

/** What a page gets: the parameters of its path. */
export type Params = Record<string, string>;
export interface PageProps {
  params: Params;
}

export interface RouteEntry {
  path: string;
  page: LazyExoticComponent<ComponentType<PageProps>>;
  title: string;
  /** In the navigation: its icon, and the key after `g`. */
  nav?: { icon: IconName; key: string };
}

export const routes: readonly RouteEntry[] = [
  { path: "/runs", title: "Runs", nav: { icon: "runs", key: "r" }, page: lazy(() => import("../pages/runs/RunsPage.tsx")) },
  { path: "/runs/:id", title: "Run", page: lazy(() => import("../pages/run/RunPage.tsx")) },
  { path: "/approvals", title: "Approvals", nav: { icon: "approvals", key: "a" }, page: lazy(() => import("../pages/approvals/ApprovalsPage.tsx")) },
  { path: "/approvals/:id", title: "Approval", page: lazy(() => import("../pages/approval/ApprovalPage.tsx")) },
  { path: "/dlq", title: "Dead letters", nav: { icon: "dlq", key: "d" }, page: lazy(() => import("../pages/dlq/DeadLettersPage.tsx")) },
  { path: "/workers", title: "Workers", nav: { icon: "workers", key: "w" }, page: lazy(() => import("../pages/workers/WorkersPage.tsx")) },
  { path: "/workflows", title: "Workflows", nav: { icon: "workflows", key: "f" }, page: lazy(() => import("../pages/workflows/WorkflowsPage.tsx")) },
  { path: "/workflows/:name", title: "Workflow", page: lazy(() => import("../pages/workflow/WorkflowPage.tsx")) },
  { path: "/overview", title: "Overview", nav: { icon: "overview", key: "o" }, page: lazy(() => import("../pages/overview/OverviewPage.tsx")) },
  { path: "/editor", title: "Editor", nav: { icon: "editor", key: "e" }, page: lazy(() => import("../pages/editor/EditorPage.tsx")) },
];
