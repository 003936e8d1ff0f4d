import { CodeBlock, Empty } from "../../components/index.ts";

export default function EditorPage() {
  return (
    <Empty icon="editor" title="The editor is not here yet">
      <p>Until then, write the document with your own editor. It is deployed again whenever it changes:</p>
      <CodeBlock text="minuet dev order.yaml" />
    </Empty>
  );
}
