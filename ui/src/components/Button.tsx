import { useEffect, useRef, useState, type ButtonHTMLAttributes, type ReactNode } from "react";
import { CopyButton } from "./CopyButton.tsx";
import { Icon, type IconName } from "./Icon.tsx";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "primary" | "danger" | "plain" | "approve" | "reject";
  icon?: IconName;
  /** The command line that does the same: shown and copied from the arrow beside the button. */
  twin?: string;
  children?: ReactNode;
}

/** A button. With `twin`, an arrow beside it shows the command that does the same. */
export function Button({ kind, icon, twin, children, type = "button", ...rest }: ButtonProps) {
  const iconOnly = children === undefined;
  const button = (
    <button {...rest} type={type} className="button" data-kind={kind} data-icon-only={iconOnly || undefined}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
  return twin === undefined ? button : <WithTwin twin={twin}>{button}</WithTwin>;
}

function WithTwin({ twin, children }: { twin: string; children: ReactNode }) {
  const [open, setOpen] = useState(false);
  return (
    <Popover open={open} onClose={() => setOpen(false)}>
      <span className="button-group">
        {children}
        <button
          type="button"
          className="button"
          data-icon-only
          aria-label="Show the command that does the same"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
        >
          <Icon name="down" />
        </button>
      </span>
      {open && (
        <div className="popover" role="dialog" aria-label="Command line">
          <h3>The same on the command line</h3>
          <div className="twin">
            <code>{twin}</code>
            <CopyButton text={twin} />
          </div>
        </div>
      )}
    </Popover>
  );
}

/** Closes what it holds on Escape and on a click elsewhere. */
export function Popover({ open, onClose, children }: { open: boolean; onClose: () => void; children: ReactNode }) {
  const anchor = useRef<HTMLSpanElement>(null);
  const latest = useRef(onClose);
  latest.current = onClose;
  useEffect(() => {
    if (!open) return;
    const control = new AbortController();
    const { signal } = control;
    addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "Escape") return;
        event.preventDefault();
        latest.current();
      },
      { signal, capture: true },
    );
    addEventListener("pointerdown", (event) => anchor.current?.contains(event.target as Node) || latest.current(), { signal });
    return () => control.abort();
  }, [open]);
  return (
    <span className="popover-anchor" ref={anchor}>
      {children}
    </span>
  );
}
