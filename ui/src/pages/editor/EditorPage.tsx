import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { Page, Shape, Workflow } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, CopyButton, Failure, Icon, Loading, SplitPane, Time, toast } from "../../components/index.ts";
import { fieldsOf, type Known, type Schema } from "../../document/complete.ts";
import { addNode, connect, freeId, isJson } from "../../document/edits.ts";
import { outline, writtenNodes } from "../../document/outline.ts";
import { useCommands } from "../../lib/commands.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, useQueryParam } from "../../lib/router.tsx";
import { useIsShown } from "../../lib/shown.ts";
import { inOrder, toYaml } from "../../lib/yaml.ts";
import { CodeField, lineOf, type CodeFieldHandle, type Mark } from "./CodeField.tsx";
import { keepDraft, readDraft, shownGraph } from "./draft.ts";
import { EditorGraph } from "./EditorGraph.tsx";
import { NodePalette } from "./NodePalette.tsx";
import { Problems } from "./Problems.tsx";
import { SaveDialog } from "./Save.tsx";
import { RunStrip, StartDialog, useTestRun } from "./TestRun.tsx";
import { useChecked } from "./useChecked.ts";
import "./editor.css";

const NEW = `name: my-workflow
description: What it does.

nodes:
  - id: first
    type: noop
`;

/** Write a workflow: the text is the truth, the graph beside it follows it. */
export default function EditorPage() {
  const [workflow] = useQueryParam("workflow");
  // What was opened, and its name now: deploying gives a text a name, but does not load it again.
  const opened = useRef({ name: workflow, now: workflow, count: 0 });
  if (workflow !== opened.current.now) opened.current = { name: workflow, now: workflow, count: opened.current.count + 1 };
  const { name, count } = opened.current;
  const { data, error, reload } = useQuery(name ? `workflow ${count} ${name}` : null, (signal) => get<Workflow>("/workflows/{name}", { path: { name }, signal }));
  const base = useMemo(() => (name ? (data ? textOf(data) : null) : NEW), [name, data]);
  if (error) return <Failure error={error} onRetry={reload} />;
  if (base === null) return <Loading what="the workflow" />;
  return <Editor key={count} name={name} base={base} version={data?.version ?? null} onNamed={(now) => (opened.current.now = now)} />;
}

/** The text as it was deployed; of a document that was deployed as data, one that is made of it. */
const textOf = ({ source, document }: Workflow): string => source?.replace(/\r\n?/g, "\n") ?? toYaml(inOrder(document));

interface EditorProps {
  name: string;
  base: string;
  version: number | null;
  /** It is deployed with a name, which the address will have. */
  onNamed: (name: string) => void;
}

function Editor({ name: first, base: given, version: opened, onNamed }: EditorProps) {
  const [name, setName] = useState(first);
  const [base, setBase] = useState(given);
  const [isKept, setIsKept] = useState(true);
  const [draft, setDraft] = useState(() => readDraft(name));
  const [text, setText] = useState(draft?.text ?? given);
  const [version, setVersion] = useState(opened);
  const [, setWorkflow] = useQueryParam("workflow");
  const [node, setNode] = useQueryParam("node");
  const [runId, setRunId] = useQueryParam("run");
  const [chosen, setChosen] = useState(node);
  const [open, setOpen] = useState<"run" | "save" | null>(null);
  const [last, setLast] = useState<{ input: unknown } | null>(null);
  const [hurry, setHurry] = useState(0);
  const field = useRef<CodeFieldHandle>(null);
  const latest = useRef(text);
  latest.current = text;
  const known = useKnown();
  const checked = useChecked(text, hurry);
  const test = useTestRun(runId);
  const isShown = useIsShown();

  // The draft is kept a moment after the last change, and when the page goes away.
  useEffect(() => {
    const keep = (): void => setIsKept(keepDraft(name, { text, at: Date.now(), base }));
    const timer = setTimeout(keep, 300);
    addEventListener("pagehide", keep);
    return () => {
      clearTimeout(timer);
      removeEventListener("pagehide", keep);
    };
  }, [text, base, name]);

  const written = useMemo(() => writtenNodes(outline(checked.text ?? text)), [checked.text]);
  const isCurrent = checked.answer?.graph != null;
  const made = useMemo(() => shownGraph(checked.graph, written, isCurrent), [checked.graph, written, isCurrent]);
  // What does not change the graph must not lay it out again.
  const shape = useMemo(() => JSON.stringify(made), [made]);
  const graph = useMemo(() => made, [shape]);
  const problems = checked.answer?.diagnostics ?? NONE;
  const marks = useMemo((): Mark[] => problems.flatMap(({ line, column, severity, message }) => (line === null ? [] : { line, column: column ?? 1, severity, message })), [problems]);
  const withProblems = useMemo(() => new Set(problems.flatMap(({ path }) => written[Number(/^nodes\[(\d+)\]/.exec(path)?.[1] ?? -1)]?.id ?? [])), [problems, written]);
  const errors = problems.filter((one) => one.severity === "error").length;

  const choose = useCallback(
    (id: string): void => {
      const found = writtenNodes(outline(latest.current)).find((one) => one.id === id);
      setChosen(id);
      setNode(id);
      if (!found) return;
      const before = latest.current;
      field.current?.show(lineOf(before, found.at), found.at - before.lastIndexOf("\n", found.at - 1));
    },
    [setNode],
  );
  const add = useCallback(
    (what: string, after: string | null): void => {
      const [kind, wanted] = [what.slice(0, what.indexOf(":")), what.slice(what.indexOf(":") + 1)];
      const type = known.value?.types.find((one) => one.name === wanted) ?? null;
      if (kind !== "handler" && !type) return;
      const id = freeId(latest.current, wanted);
      const fields = fieldsOf(id, type, kind === "handler" ? wanted : null);
      // Durable functions and tasks need a handler, whichever there is.
      const handler = known.value?.handlers[0]?.name;
      if (kind !== "handler" && (wanted === "task" || wanted === "flow")) fields.handler = handler ?? "change_me";
      const full = after && latest.current.includes(after) ? { id, ...dropId(fields), dependencies: [after] } : fields;
      field.current?.edit(addNode(latest.current, full));
      setChosen(id);
      setHurry((one) => one + 1);
    },
    [known.value],
  );
  const join = useCallback((from: string, to: string): void => {
    const edit = connect(latest.current, from, to);
    if (!edit) return toast(`${to} comes after ${from} already`, "waiting");
    field.current?.edit(edit);
    setHurry((one) => one + 1);
  }, []);
  // The node at the cursor, once the cursor rests.
  const resting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const follow = useCallback((at: number): void => {
    clearTimeout(resting.current);
    resting.current = setTimeout(() => {
      const found = writtenNodes(outline(latest.current)).findLast((one) => one.part.start <= at);
      setChosen(found && at <= found.part.end + 1 ? found.id : "");
    }, 150);
  }, []);
  useEffect(() => () => clearTimeout(resting.current), []);
  const addAfter = useCallback((what: string): void => add(what, chosen || null), [add, chosen]);
  const show = useCallback((line: number, column: number): void => field.current?.show(line, column), []);
  const restore = (): void => {
    setText(base);
    setDraft(null);
    setHurry((one) => one + 1);
  };
  const format = (): void => {
    const document = checked.answer?.document;
    if (!document || checked.text !== text) return toast("The document has to be valid first.", "failed");
    const next = isJson(text) ? toYaml(inOrder(document)) : `${JSON.stringify(inOrder(document), null, 2)}\n`;
    field.current?.edit({ start: 0, end: text.length, text: next, cursor: 0 });
  };

  const title = checked.answer?.workflow ?? name ?? "";
  const canSave = checked.answer?.valid === true && checked.text === text;
  useShortcuts([
    { keys: "Ctrl+S", label: "Deploy the workflow", everywhere: true, run: () => (canSave ? setOpen("save") : toast("It cannot be deployed before its problems are solved.", "failed")) },
    { keys: "Ctrl+ENTER", label: "Run it with test data", everywhere: true, run: () => canSave && setOpen("run") },
    { keys: "F8", label: "Next problem", everywhere: true, run: () => nextProblem() },
  ]);
  useCommands([
    { label: "Run with test data", icon: "play", run: () => setOpen("run") },
    { label: "Deploy", icon: "check", run: () => setOpen("save") },
    { label: isJson(text) ? "Write it as YAML" : "Write it as JSON", icon: "edit", run: format },
  ]);
  const at = useRef(-1);
  const nextProblem = (): void => {
    if (!marks.length) return;
    at.current = (at.current + 1) % marks.length;
    field.current?.show(marks[at.current]!.line, marks[at.current]!.column);
  };

  return (
    <div className="page editor-page">
      <div className="page-head">
        <h1 className="truncate">{title || "A new workflow"}</h1>
        {version !== null && (
          <Link to={`/workflows/${encodeURIComponent(title || name)}`} className="muted nums">
            v{version}
          </Link>
        )}
        {text !== base && <span className="tag">not deployed</span>}
        <span className="grow" />
        <span className="editor-state" data-status={errors ? "failed" : checked.answer ? "completed" : "pending"} role="status">
          {checked.error ? "The server does not answer" : errors ? `${errors} ${errors === 1 ? "problem" : "problems"}` : checked.answer ? "Valid" : "Checking…"}
        </span>
        <CopyButton text={() => latest.current} label="Copy the text" />
        <Button icon="play" disabled={!canSave} onClick={() => setOpen("run")} title="Ctrl Enter">
          Run…
        </Button>
        <Button kind="primary" disabled={!canSave || text === base} onClick={() => setOpen("save")} title="Ctrl S">
          Deploy…
        </Button>
      </div>
      {draft && draft.text !== given && (
        <div className="banner" role="status">
          <Icon name="edit" />
          <span className="grow">
            This is your draft, changed <Time at={new Date(draft.at).toISOString()} />.{draft.base !== given && " What is deployed has changed since then."}
          </span>
          <Button onClick={restore}>{name ? "Show what is deployed" : "Begin again"}</Button>
          <Button kind="plain" icon="close" aria-label="Keep the draft" onClick={() => setDraft(null)} />
        </div>
      )}
      {!isKept && (
        <div className="banner" role="alert">
          <Icon name="dlq" />
          <span className="grow">This browser has no room for your draft: deploy it, or copy its text, before you leave this page.</span>
        </div>
      )}
      <SplitPane
        name="editor"
        width={620}
        side={
          <div className="editor-side">
            <NodePalette types={known.types} handlers={known.handlers} after={chosen} onAdd={addAfter} />
            <div className="editor-beside">
              {test.run && <RunStrip run={test.run} onClose={() => setRunId("")} />}
              <EditorGraph graph={graph} chosen={chosen} problems={withProblems} statuses={test.statuses} isCurrent={isCurrent} onChoose={choose} onConnect={join} onAdd={add} />
              {checked.answer && !isCurrent && <p className="editor-note">Not valid yet: what is finished is drawn as it was.</p>}
            </div>
          </div>
        }
      >
        <CodeField handle={field} text={text} onChange={setText} language={isJson(text) ? "json" : "yaml"} marks={checked.text === null ? [] : marks} known={known.value} label="Document" onCursor={follow} />
        <Problems problems={problems} onShow={show} />
      </SplitPane>
      {open === "run" && (
        <StartDialog
          name={title}
          text={text}
          schema={(checked.answer?.input_schema as Schema | null | undefined) ?? null}
          last={last}
          onClose={() => setOpen(null)}
          onStarted={(run, input) => {
            setOpen((now) => (now === "run" ? null : now));
            setLast({ input });
            setRunId(run);
          }}
        />
      )}
      {open === "save" && (
        <SaveDialog
          name={title}
          text={text}
          onClose={() => setOpen(null)}
          onSaved={(workflow) => {
            setOpen((now) => (now === "save" ? null : now));
            setBase(text);
            setDraft(null);
            setVersion(workflow.version);
            keepDraft(name, { text, at: Date.now(), base: text });
            // What is typed from now on is a draft of what was deployed.
            setName(workflow.name);
            if (isShown()) {
              onNamed(workflow.name);
              setWorkflow(workflow.name);
            }
            const label = `${workflow.name} v${workflow.version}`;
            toast(workflow.is_new ? `${label} is deployed` : workflow.source_changed ? `${label} has this document already; its text is replaced` : `${label} has this document already`);
          }}
        />
      )}
    </div>
  );
}

const NONE: never[] = [];
const dropId = ({ id: _, ...rest }: Record<string, unknown>): Record<string, unknown> => rest;

/** What completion and the palette know. */
function useKnown(): { value: Known | null; types: readonly Shape<"NodeType">[]; handlers: readonly string[] } {
  const schema = useQuery("schema", (signal) => get<Schema>("/schema", { signal }));
  const types = useQuery("node types", (signal) => get<Page<Shape<"NodeType">>>("/node-types", { signal }));
  const handlers = useQuery("handlers", (signal) => get<Page<Shape<"Handler">>>("/handlers", { signal }));
  const value = useMemo((): Known | null => {
    if (!schema.data || !types.data || !handlers.data) return null;
    return { schema: schema.data, types: types.data.items as unknown as Known["types"], handlers: handlers.data.items as unknown as Known["handlers"] };
  }, [schema.data, types.data, handlers.data]);
  const names = useMemo(() => (handlers.data?.items ?? []).map((one) => one.name), [handlers.data]);
  return { value, types: types.data?.items ?? NONE, handlers: names };
}
