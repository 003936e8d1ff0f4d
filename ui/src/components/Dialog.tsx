import { useEffect, useRef, type ReactNode } from "react";
import { Button } from "./Button.tsx";

interface DialogProps {
  title?: string;
  /** Without it, the dialog has to be answered. */
  onClose?: () => void;
  /** Buttons at its foot. */
  foot?: ReactNode;
  children: ReactNode;
}

/** A modal dialog. It is open while it is shown; Escape and a click outside close it, if it can be closed. */
export function Dialog({ title, onClose, foot, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      className="dialog"
      aria-label={title}
      onClose={() => (onClose ? onClose() : dialog.current?.showModal())}
      onClick={(event) => event.target === dialog.current && onClose?.()}
    >
      {title && (
        <div className="dialog-head">
          <h1 className="grow">{title}</h1>
          {onClose && <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />}
        </div>
      )}
      {title ? <div className="dialog-body">{children}</div> : children}
      {foot && <div className="dialog-foot">{foot}</div>}
    </dialog>
  );
}
