import { useState, type FormEvent } from "react";
import { giveKey, hasKey, keyWanted } from "../api/client.ts";
import { Button, Dialog } from "../components/index.ts";
import { useStore } from "../lib/store.ts";

/** Asks for an API key when the server wants one. It stays in this tab only. */
export function KeyDialog() {
  const wanted = useStore(keyWanted);
  const [key, setKey] = useState("");
  if (wanted === null) return null;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (key.trim()) giveKey(key.trim());
    setKey("");
  };
  return (
    <Dialog title="API key">
      <form onSubmit={submit}>
        <p>{hasKey() ? `The server does not take this key: ${wanted}` : "This server asks for an API key."}</p>
        <p className="muted">
          Somebody with access to the store makes one: <code>minuet keys create NAME --role viewer</code>
        </p>
        <p className="row" style={{ marginTop: 12 }}>
          <input className="field grow" type="password" autoComplete="off" autoFocus aria-label="API key" value={key} onChange={(event) => setKey(event.target.value)} />
          <Button type="submit" kind="primary">
            Use it
          </Button>
        </p>
      </form>
    </Dialog>
  );
}
