import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";
import react from "@vitejs/plugin-react";

const OUT = "../src/minuet/page";

/** Writes each file also compressed, and how much a first visit loads. */
function compress(): Plugin {
  return {
    name: "minuet-compress",
    apply: "build",
    closeBundle() {
      const sizes = new Map<string, number>();
      for (const name of readdirSync(OUT, { recursive: true }) as string[]) {
        const path = join(OUT, name);
        if (!/\.(js|css|html|svg|json)$/.test(name) || !statSync(path).isFile()) continue;
        const content = readFileSync(path);
        const small = gzipSync(content, { level: 9 });
        writeFileSync(`${path}.gz`, small);
        writeFileSync(
          `${path}.br`,
          brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
        );
        sizes.set(name.replaceAll("\\", "/"), small.length);
      }
      const index = readFileSync(join(OUT, "index.html"), "utf8");
      const first = [...index.matchAll(/(?:src|href)="\/ui\/([^"]+)"/g)].map((found) => found[1]!);
      const total = first.reduce((sum, name) => sum + (sizes.get(name) ?? 0), 0);
      const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
      console.log(
        `the page: ${(total / 1000).toFixed(0)} kB for the first load, ${(all / 1000).toFixed(0)} kB in all (gzip)`,
      );
    },
  };
}

export default defineConfig({
  base: "/ui/",
  plugins: [react(), compress()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    // Nothing is written into the document or into data addresses: the policy forbids it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:7800" } },
});
