import { useState, type ReactNode } from "react";
import { post } from "../../api/client.ts";
import { Button, Dialog, toast } from "../../components/index.ts";
import { shellOption, showCount } from "../../lib/format.ts";
import { given } from "../../lib/me.ts";
import { useIsShown } from "../../lib/shown.ts";
import { redrive, type Picked } from "./retrying.ts";

const PACES = [1, 5, 20, 100] as const;

interface ManyProps {
  count: number;
  /** What selects them on the command line. */
  words: string;
  onClose: () => void;
  onChanged: () => void;
}

/** Retry many, at a pace. */
export function RetryDialog({ picked, count, words, onClose, onChanged }: ManyProps & { picked: Picked }) {
  const [pace, setPace] = useState<number | null>(count > 20 ? 5 : null);
  const start = async (): Promise<void> => {
    onClose();
    try {
      await redrive(picked, pace);
    } catch (error) {
      toast((error as Error).message, "failed");
    }
    onChanged();
  };
  const command = `minuet dlq retry ${words}${pace === null ? "" : ` --per-second ${pace}`}`;
  return (
    <Dialog
      title={`Retry ${showCount(count)} dead ${count === 1 ? "letter" : "letters"}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button kind="primary" icon="retry" twin={command} onClick={() => void start()} autoFocus>
            Retry
          </Button>
        </>
      }
    >
      <div className="dialog-parts">
        <p>
          The node that failed runs again, from its first attempt, and so does what was cut off when its run failed. What has completed is not repeated. If the cause
          is still there, they come back.
        </p>
        <div className="form-field">
          <span className="form-label">Pace</span>
          <div className="form-choices" role="radiogroup" aria-label="Pace">
            {PACES.map((one) => (
              <Choice key={one} chosen={pace === one} onChoose={() => setPace(one)}>
                {one} a second
              </Choice>
            ))}
            <Choice chosen={pace === null} onChoose={() => setPace(null)}>
              at once
            </Choice>
          </div>
          <span className="form-about">
            {pace === null ? "All of them go out as fast as the server takes them." : `That takes about ${about(count / pace)}. The server goes on with it, also when this page is closed.`}
          </span>
        </div>
      </div>
    </Dialog>
  );
}

const Choice = ({ chosen, onChoose, children }: { chosen: boolean; onChoose: () => void; children: ReactNode }) => (
  <label data-chosen={chosen || undefined}>
    <input type="radio" name="pace" className="visually-hidden" checked={chosen} onChange={onChoose} />
    {children}
  </label>
);

const about = (seconds: number): string => (seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`);

/** Discard many, with a reason. Their ids are asked for when they are needed. */
export function DiscardDialog({ find, count, words, onClose, onChanged }: ManyProps & { find: () => Promise<string[]> }) {
  const [why, setWhy] = useState("");
  const [busy, setBusy] = useState(false);
  const isShown = useIsShown();
  const discard = async (): Promise<void> => {
    setBusy(true);
    let done = 0;
    let said = "";
    try {
      for (const id of await find()) {
        await post("/dlq/{id}/discard", { path: { id }, body: { why, by: given.get().name } }).then(
          () => done++,
          (error: Error) => (said = error.message),
        );
      }
    } catch (error) {
      said = (error as Error).message;
    }
    toast(said ? `Discarded ${done} of ${count}: ${said}` : `Discarded ${done}`, said ? "failed" : "completed");
    if (isShown()) onClose();
    onChanged();
  };
  return (
    <Dialog
      title={`Discard ${showCount(count)} dead ${count === 1 ? "letter" : "letters"}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Keep</Button>
          <Button kind="danger" icon="trash" disabled={busy} twin={`minuet dlq discard ${words}${why ? ` ${shellOption("--why", why)}` : ""}`} onClick={() => void discard()}>
            {busy ? "Discarding…" : "Discard"}
          </Button>
        </>
      }
    >
      <div className="dialog-parts">
        <p>They are marked as of no further interest. Their runs stay failed; a run whose node is held fails now. This cannot be taken back.</p>
        <label className="form-field">
          <span className="form-label">Why</span>
          <input className="field" autoFocus placeholder="A test order, the customer has cancelled, …" value={why} onChange={(event) => setWhy(event.target.value)} />
        </label>
      </div>
    </Dialog>
  );
}
