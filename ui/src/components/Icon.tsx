const PATHS = {
  runs: "M3 4h10M3 8h10M3 12h6",
  approvals: "M3 8.5 6.5 12 13 4.5",
  dlq: "M8 5.5v3.5M8 11.3v.2M7 2.6 1.7 12a1.1 1.1 0 0 0 1 1.6h10.6a1.1 1.1 0 0 0 1-1.6L9 2.6a1.1 1.1 0 0 0-2 0Z",
  workers: "M2.5 3.5h11v4h-11zM2.5 9.5h11v3.5h-11zM5 5.5h.1M5 11.3h.1",
  workflows: "M4 2.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3ZM12 6.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3ZM4 10.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3ZM5.5 4.5l5 3M5.5 11.5l5-3",
  overview: "M2.5 13.5v-5M6.2 13.5v-8M9.8 13.5V7M13.5 13.5v-11",
  editor: "M10.5 3 13 5.5 6 12.5l-3 .5.5-3zM9 4.5 11.5 7",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.5 10.5l3 3",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  check: "M3 8.5 6.5 12 13 4.5",
  terminal: "M3 4.5 6.5 8 3 11.5M8.5 11.5H13",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M4 6l4 4 4-4",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7",
  clock: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4.8V8l2.2 1.6",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.8v.2M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z",
  lost: "M2 6a9 9 0 0 1 12 0M4.5 8.8a5.5 5.5 0 0 1 7 0M8 12.2v.2M2.5 2.5l11 11",
  stop: "M4 4h8v8H4z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5v9l7.5-4.5z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  star: "M8 2.2 9.8 6l4.1.5-3 2.9.8 4.1L8 11.5l-3.7 2 .8-4.1-3-2.9L6.2 6z",
  empty: "M2.5 9.5 4 3.5h8l1.5 6v3.5h-11zM2.5 9.5h3.2l.8 1.5h3l.8-1.5h3.2",
  more: "M3.5 8h.1M8 8h.1M12.5 8h.1",
  back: "M9.5 3.5 5 8l4.5 4.5",
  loop: "M3 8a5 5 0 0 1 8.5-3.5L13 6M13 2.5V6H9.5M13 8a5 5 0 0 1-8.5 3.5L3 10M3 13.5V10h3.5",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);
