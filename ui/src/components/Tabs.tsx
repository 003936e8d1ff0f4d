import type { KeyboardEvent, ReactNode } from "react";

export interface Tab {
  id: string;
  label: ReactNode;
  count?: number;
}

export function Tabs({ tabs, chosen, onChoose, label }: { tabs: readonly Tab[]; chosen: string; onChoose: (id: string) => void; label: string }) {
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    onChoose(next.id);
    event.currentTarget.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          className="tab"
          data-tab={tab.id}
          aria-selected={tab.id === chosen}
          tabIndex={tab.id === chosen ? 0 : -1}
          onClick={() => onChoose(tab.id)}
        >
          {tab.label}
          {tab.count !== undefined && <span className="nav-count">{tab.count}</span>}
        </button>
      ))}
    </div>
  );
}
