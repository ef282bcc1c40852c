// Addresses inside the page, the same in an exported file and in a served page: `#/run/ID?at=199&q=words`.

/** Return the page, its argument, the point (null: the newest; a position, else text) and the other parameters that a hash names. */
export function parseAddress(hash) {
  const [, path, query] = /^#?([^?]*)\??(.*)$/s.exec(hash);
  const [page = "", ...rest] = path.split("/").filter(Boolean);
  const parameters = Object.fromEntries(new URLSearchParams(query));
  const { at, ...others } = parameters;
  return { page: page || "overview", argument: rest.map(decoded).join("/"), at: point(at), parameters: others };
}

/** Return the hash of an address; parameters that are empty are left out. */
export function formatAddress({ page, argument = "", at = null, parameters = {} }) {
  const path = page === "overview" && !argument ? "" : [page, ...(argument ? [encodeURIComponent(argument)] : [])].join("/");
  const given = Object.entries({ ...parameters, at }).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return "#/" + path + (query ? "?" + query : "");
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray per cent sign, as people type it
  }
}

function point(text) {
  return /^\d{1,15}$/.test(text) ? Number(text) : text || null;
}
