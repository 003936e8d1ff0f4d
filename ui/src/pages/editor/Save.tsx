import { useState } from "react";
import { post } from "../../api/client.ts";
import type { Workflow } from "../../api/types.ts";
import { Button, Dialog, toast } from "../../components/index.ts";
import { shellWord } from "../../lib/format.ts";
import { useMe } from "../../lib/me.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { useIsShown } from "../../lib/shown.ts";

interface SaveDialogProps {
  name: string;
  text: string;
  onSaved: (workflow: Workflow) => void;
  onClose: () => void;
}

/** Saving is deploying: the next version, with a message. */
export function SaveDialog({ name, text, onSaved, onClose }: SaveDialogProps) {
  const me = useMe();
  const [message, setMessage] = useState("");
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const isShown = useIsShown();
  const save = async (): Promise<void> => {
    if (busy) return;
    setBusy(true);
    try {
      onSaved(await post<Workflow>("/workflows", { body: { document: text, message, ...(me?.isGiven && me.name ? { by: me.name } : {}) } }));
    } catch (error) {
      if (!isShown()) return toast(`${name} is not deployed: ${(error as Error).message}`, "failed");
      setRefused((error as Error).message);
      setBusy(false);
    }
  };
  useShortcuts([{ keys: "Ctrl+ENTER", label: "Deploy", everywhere: true, run: () => void save() }]);
  return (
    <Dialog
      title={`Deploy ${name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button kind="primary" disabled={busy} twin={`minuet deploy ${shellWord(`${name}.yaml`)}${message ? ` -m ${shellWord(message)}` : ""}`} onClick={() => void save()}>
            {busy ? "Deploying…" : "Deploy"}
          </Button>
        </>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <label className="form-field">
          <span className="form-label">
            What has changed <span className="form-optional">optional</span>
          </span>
          <input className="field" autoFocus value={message} onChange={(event) => setMessage(event.target.value)} />
        </label>
      </form>
      <p className="muted">Runs that are started from now on have the new version; those that go on keep theirs. The text is kept as it is; one that differs only in comments and layout makes no new version.</p>
      {refused && (
        <p className="form-problem" role="alert">
          {refused}
        </p>
      )}
    </Dialog>
  );
}
