// The source of a served page: answers fetched as of any position, and news while the log grows.

import { withRows } from "./row_list.js";

const ANSWERS = "page/";
const NEWS = "api/v1/live";

export class ServedSource {
  isLive = true;

  /** Return the answer `name` as of `at` (default: the newest); a failure to answer is {error}. */
  async get(name, { at = null, ...asked } = {}) {
    const given = Object.entries({ ...asked, at }).flatMap(([key, value]) => [value].flat().map((each) => [key, each])).filter(([, value]) => value !== undefined && value !== null && value !== "");
    try {
      const response = await fetch(`${ANSWERS}${name}?${new URLSearchParams(given)}`, { credentials: "same-origin" });
      return withRows(name, await response.json());
    } catch {
      return { at, error: "The server does not answer. It may have been stopped: start it again with rbank-es serve." };
    }
  }

  /** Call back with each position of the log after the newest one that is known. */
  follow(newest, callback) {
    const events = new EventSource(`${NEWS}?after=${newest}`);
    let known = newest;
    events.onmessage = ({ data }) => {
      if (Number(data) <= known) return;
      known = Number(data);
      callback(known);
    };
  }
}
