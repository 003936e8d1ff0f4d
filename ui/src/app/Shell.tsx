import { Component, Suspense, useEffect, useState, type ReactNode } from "react";
import { forgetKey, get, hasKey } from "../api/client.ts";
import type { Approval, LetterGroup, Page } from "../api/types.ts";
import { useQuery } from "../api/useQuery.ts";
import { Empty, Failure, Icon, Loading } from "../components/index.ts";
import { Toasts } from "../components/Toast.tsx";
import { FirstMinute } from "../first/FirstMinute.tsx";
import { useCommands } from "../lib/commands.ts";
import { useShortcuts } from "../lib/keys.ts";
import { Link, matchPath, navigate, usePath } from "../lib/router.tsx";
import { cycle, theme, timeMode } from "../lib/settings.ts";
import { useStore } from "../lib/store.ts";
import { connection } from "../live/connection.ts";
import { useFeed } from "../live/feed.ts";
import { Help } from "./Help.tsx";
import { KeyDialog } from "./KeyDialog.tsx";
import { Palette } from "./Palette.tsx";
import { routes } from "./routes.ts";

const NAV = routes.flatMap(({ path, title, nav }) => (nav ? [{ path, title, ...nav }] : []));
const THEMES = ["system", "light", "dark"] as const;
const TIMES = ["relative", "local", "utc"] as const;
const TIME_NAMES = { relative: "Relative times", local: "Local times", utc: "UTC times" };
const THEME_NAMES = { system: "Theme of the system", light: "Light theme", dark: "Dark theme" };

export function Shell() {
  const path = usePath();
  const [open, setOpen] = useState<"palette" | "help" | null>(null);
  useEffect(() => {
    if (path === "/") navigate("/runs", { replace: true });
  }, [path]);
  useShortcuts([
    { keys: "Ctrl+K", label: "Commands", everywhere: true, run: () => setOpen(open === "palette" ? null : "palette") },
    { keys: "?", label: "Keys", run: () => setOpen("help") },
    ...NAV.map(({ key, title, path: to }) => ({ keys: `g ${key}`, label: `Go to ${title.toLowerCase()}`, run: () => navigate(to) })),
    { keys: "t", label: "Times: relative, local, UTC", run: () => cycle(timeMode, TIMES) },
  ]);
  useCommands([
    ...NAV.map(({ key, title, path: to, icon }) => ({ label: `Go to ${title.toLowerCase()}`, keys: `g ${key}`, icon, run: () => navigate(to) })),
    ...THEMES.map((one) => ({ label: THEME_NAMES[one], icon: "sun" as const, run: () => theme.set(one) })),
    ...TIMES.map((one) => ({ label: TIME_NAMES[one], icon: "clock" as const, run: () => timeMode.set(one) })),
    { label: "Keys", keys: "?", icon: "help", run: () => setOpen("help") },
  ]);
  return (
    <div className="shell">
      <Sidebar path={path} onHelp={() => setOpen("help")} onSearch={() => setOpen("palette")} />
      <main className="main">
        <ConnectionBanner />
        <FirstMinute path={path} />
        <Boundary key={path}>
          <Suspense fallback={<Loading what="the code of this page" />}>
            <CurrentPage path={path} />
          </Suspense>
        </Boundary>
      </main>
      {open === "palette" && <Palette onClose={() => setOpen(null)} />}
      {open === "help" && <Help onClose={() => setOpen(null)} />}
      <KeyDialog />
      <Toasts />
    </div>
  );
}

function CurrentPage({ path }: { path: string }) {
  for (const { path: pattern, page: Page, title } of routes) {
    const params = matchPath(pattern, path);
    if (params) {
      return (
        <>
          <title>{`${params.name ?? title} · Minuet`}</title>
          <Page params={params} />
        </>
      );
    }
  }
  if (path === "/") return null;
  return (
    <Empty icon="search" title="There is no such page">
      <p>
        Nothing is at <code>{path}</code>. Perhaps the address was cut off, or the link is from another version.
      </p>
      <p>
        <Link to="/runs">All runs</Link> · <Link to="/workflows">Workflows</Link> · <Link to="/approvals">Approvals</Link>
      </p>
    </Empty>
  );
}

function Sidebar({ path, onHelp, onSearch }: { path: string; onHelp: () => void; onSearch: () => void }) {
  const counts = useCounts();
  const time = useStore(timeMode);
  const chosen = useStore(theme);
  return (
    <header className="sidebar">
      <Link to="/runs" className="brand">
        <img src="/ui/icon.svg" alt="" width={20} height={20} />
        Minuet
      </Link>
      <button type="button" className="sidebar-button" onClick={onSearch}>
        <Icon name="search" />
        <span className="grow">Search</span>
        <kbd>Ctrl K</kbd>
      </button>
      <nav aria-label="Pages">
        {NAV.map(({ path: to, title, icon }) => (
          <Link key={to} to={to} className="nav-link" aria-current={path === to || path.startsWith(`${to}/`) ? "page" : undefined}>
            <Icon name={icon} />
            {title}
            {counts[to] ? (
              <span className="nav-count" data-tone={to === "/dlq" ? "red" : "violet"}>
                {counts[to] > 99 ? "99+" : counts[to]}
              </span>
            ) : null}
          </Link>
        ))}
      </nav>
      <div className="sidebar-end">
        <button type="button" className="sidebar-button" onClick={() => cycle(timeMode, TIMES)}>
          <Icon name="clock" />
          {TIME_NAMES[time]}
        </button>
        <button type="button" className="sidebar-button" onClick={() => cycle(theme, THEMES)}>
          <Icon name="sun" />
          {THEME_NAMES[chosen]}
        </button>
        <button type="button" className="sidebar-button" onClick={onHelp}>
          <Icon name="help" />
          <span className="grow">Keys</span>
          <kbd>?</kbd>
        </button>
        {hasKey() && (
          <button type="button" className="sidebar-button" onClick={forgetKey}>
            <Icon name="close" />
            Forget the API key
          </button>
        )}
      </div>
    </header>
  );
}

/** What waits for people: asked for again when something happened that may change it. */
function useCounts(): Record<string, number> {
  const approvals = useQuery("count-approvals", (signal) => get<Page<Approval>>("/approvals", { query: { status: "pending", limit: 100 }, signal }));
  const letters = useQuery("count-letters", (signal) => get<Page<LetterGroup>>("/dlq/groups", { query: { status: "pending" }, signal }));
  useFeed({
    onEvents: (events) => {
      if (events.some((one) => one.type === "node.waiting" || one.type === "node.resumed")) approvals.reload();
      if (events.some((one) => one.data.dead_letter || one.type === "run.retried" || one.type === "node.repaired")) letters.reload();
    },
    onReset: () => {
      approvals.reload();
      letters.reload();
    },
  });
  return {
    "/approvals": approvals.data?.items.length ?? 0,
    "/dlq": letters.data?.items.reduce((sum, one) => sum + one.count, 0) ?? 0,
  };
}

function ConnectionBanner() {
  const state = useStore(connection);
  if (state === "fine") return null;
  return (
    <div className="banner" role="status" data-tone={state === "caught-up" ? "green" : undefined}>
      <Icon name={state === "lost" ? "lost" : "check"} />
      {state === "lost" ? "Connection lost, reconnecting… What you see may be old." : "Connected again, and caught up."}
    </div>
  );
}

/** An error in one page does not take the others with it. */
class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ReactNode {
    return this.state.error ? <Failure error={this.state.error} onRetry={() => location.reload()} /> : this.props.children;
  }
}
