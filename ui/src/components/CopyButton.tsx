import { useState } from "react";
import { Icon } from "./Icon.tsx";
import { toast } from "./Toast.tsx";

export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      toast("The browser does not allow copying here: select the text instead.", "failed");
    }
  };
  return (
    <button type="button" className="button" data-kind="plain" data-icon-only aria-label={copied ? "Copied" : label} title={label} onClick={() => void copy()}>
      <Icon name={copied ? "check" : "copy"} />
    </button>
  );
}
