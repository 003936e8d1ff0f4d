import { useState } from "react";
import { call, get } from "../../api/client.ts";
import type { Page, Workflow } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, Dialog, Diff, Failure, Loading, Time, toast } from "../../components/index.ts";
import { shellWord } from "../../lib/format.ts";
import { useIsShown } from "../../lib/shown.ts";

/** All versions, with their tags; a tag can be moved to another one. */
export function Versions({ workflow, onChoose, onChanged }: { workflow: Workflow; onChoose: (version: string) => void; onChanged: () => void }) {
  const { name } = workflow;
  const { data, error, reload } = useQuery(`versions ${name}`, (signal) => get<Page<Workflow>>("/workflows/{name}/versions", { path: { name }, query: { limit: 100 }, signal }));
  const [open, setOpen] = useState<number | null>(null);
  const [moving, setMoving] = useState<Workflow | null>(null);
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  const tags = data.items[0]?.tags ?? {};
  return (
    <>
      <ol aria-label="Versions">
        {data.items.map((one, at) => {
          const before = data.items[at + 1];
          return (
            <li key={one.version} className="version" data-chosen={one.version === workflow.version || undefined}>
              <div className="row">
                <b className="nums">v{one.version}</b>
                {Object.entries(tags)
                  .filter(([, version]) => version === one.version)
                  .map(([tag]) => (
                    <span key={tag} className="tag" data-tone="accent">
                      {tag}
                    </span>
                  ))}
                <span className="grow truncate">{one.message || <span className="muted">no message</span>}</span>
                <span className="muted">
                  {one.created_by && `${one.created_by}, `}
                  <Time at={one.created_at} />
                </span>
                {before && (
                  <Button kind="plain" aria-expanded={open === one.version} onClick={() => setOpen(open === one.version ? null : one.version)}>
                    What changed
                  </Button>
                )}
                <Button kind="plain" onClick={() => onChoose(String(one.version))}>
                  Open
                </Button>
                {tags.main !== one.version && (
                  <Button kind="plain" onClick={() => setMoving(one)}>
                    Make it main…
                  </Button>
                )}
              </div>
              {open === one.version && before && <Diff before={before.document} after={one.document} />}
            </li>
          );
        })}
      </ol>
      {data.next && <p className="muted page-pad">There are older ones: minuet workflows show {name}@1</p>}
      {moving && (
        <MoveTag
          workflow={moving}
          from={tags.main}
          onClose={() => setMoving(null)}
          onDone={() => {
            reload();
            onChanged();
          }}
        />
      )}
    </>
  );
}

function MoveTag({ workflow, from, onClose, onDone }: { workflow: Workflow; from: number | undefined; onClose: () => void; onDone: () => void }) {
  const { name, version } = workflow;
  const isShown = useIsShown();
  const move = async (): Promise<void> => {
    try {
      await call("PUT", "/workflows/{name}/tags/{tag}", { path: { name, tag: "main" }, body: { version } });
      toast(`${name}@main is v${version} now`);
      onDone();
    } catch (error) {
      toast((error as Error).message, "failed");
    }
    if (isShown()) onClose();
  };
  return (
    <Dialog
      title={`Make v${version} the main version`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button kind="primary" twin={`minuet workflows tag ${shellWord(`${name}@${version}`)} main`} onClick={() => void move()}>
            Move the tag
          </Button>
        </>
      }
    >
      <p>
        Runs that are started from now on have v{version}
        {from !== undefined && <> instead of v{from}</>}. Runs that were started before keep theirs.
      </p>
    </Dialog>
  );
}
