// The one function that dspy's runner would load from the network: the lines of a stream, without their ends.
export async function* readLines(source) {
  const text = source.readable.pipeThrough(new TextDecoderStream());
  let rest = "";
  for await (const piece of text) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    yield* lines;
  }
  if (rest) yield rest;
}
