// The source of a served page: answers fetched as of any position, and news while the log grows.

import { withRows } from "./row_list.js";

const ROOT = "api/v1/";

export class ServedSource {
  /** Begin at the position of a first answer. */
  constructor(position) {
    this.position = position;
    this.isLive = true;
  }

  /** Return the answer `name` as of `at` (default: the newest); a failure to answer is {error}. */
  async get(name, { at = null, ...asked } = {}) {
    const given = Object.entries({ ...asked, at }).flatMap(([key, value]) => [value].flat().map((each) => [key, each])).filter(([, value]) => value !== undefined && value !== null && value !== "");
    try {
      const response = await fetch(`${ROOT}${name}?${new URLSearchParams(given)}`, { credentials: "same-origin" });
      return withRows(name, await response.json());
    } catch {
      return { at, error: "The server does not answer. It may have been stopped: start it again with rbank-es serve." };
    }
  }

  /** Call back with each new position of the log. */
  follow(callback) {
    const events = new EventSource(`${ROOT}live?after=${this.position}`);
    events.onmessage = (event) => {
      const position = Number(event.data);
      if (position > this.position) {
        this.position = position;
        callback(position);
      }
    };
  }
}
