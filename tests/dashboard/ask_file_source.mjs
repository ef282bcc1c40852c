// Answers questions with the source of an exported page: node ask_file_source.mjs MODULES DATA QUESTIONS > ANSWERS
import { readFileSync } from "node:fs";

const [modules, data, questions] = process.argv.slice(2);
const { FileSource } = await import(`file://${modules}/file_source.js`);
const source = new FileSource(JSON.parse(readFileSync(data, "utf8")));
const answers = [];
for (const [name, given] of JSON.parse(readFileSync(questions, "utf8"))) answers.push(await source.get(name, given));
process.stdout.write(JSON.stringify(answers));
