import { CopyButton } from "./CopyButton.tsx";

export const CodeBlock = ({ text }: { text: string }) => (
  <div className="code">
    <pre tabIndex={0}>{text}</pre>
    <CopyButton text={text} />
  </div>
);
