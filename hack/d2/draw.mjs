// Prints the SVG of a D2 file: node draw.mjs FILE. hack/diagrams puts it beside the modules of package.json.
import { readFileSync } from "node:fs";
import { D2 } from "@terrastruct/d2";

const d2 = new D2();
const { diagram, renderOptions } = await d2.compile(readFileSync(process.argv[2], "utf8"));
const svg = await d2.render(diagram, { ...renderOptions, noXMLTag: true });
process.stdout.write(`${svg.trimEnd()}\n`, () => process.exit(0));
