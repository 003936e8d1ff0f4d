/** All components: pages import from here. */

export { Button, Popover } from "./Button.tsx";
export { CodeBlock } from "./CodeBlock.tsx";
export { CodeEditor, readJson, Source, type LineProblem } from "./CodeEditor.tsx";
export { CopyButton } from "./CopyButton.tsx";
export { Dialog } from "./Dialog.tsx";
export { Fault, faultLine } from "./Fault.tsx";
export { Icon, type IconName } from "./Icon.tsx";
export { Diff, Json } from "./Json.tsx";
export { Meter } from "./Meter.tsx";
export { MiniGraph, miniLayout } from "./MiniGraph.tsx";
export { Readable } from "./Readable.tsx";
export { Rows } from "./Rows.tsx";
export { Segments } from "./Segments.tsx";
export { Sparkline } from "./Sparkline.tsx";
export { Squares } from "./Squares.tsx";
export { SplitPane } from "./SplitPane.tsx";
export { Empty, Failure, Loading } from "./States.tsx";
export { StatusBadge, StatusDot, statusKey } from "./StatusBadge.tsx";
export { Table, type Column, type Selection } from "./Table.tsx";
export { Tabs, type Tab } from "./Tabs.tsx";
export { Countdown, Duration, Prose, Time } from "./Time.tsx";
export { toast } from "./Toast.tsx";
