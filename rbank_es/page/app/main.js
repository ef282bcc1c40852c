// The app: it reads the address, asks the source, and renders. Started by the page, exported or served.
import { formatAddress, parseAddress } from "./address.js";
import { FileSource } from "./file_source.js";
import { pageNamed } from "./pages.js";
import { h, render } from "./renderer.js";
import { ServedSource } from "./served_source.js";
import { shell } from "./shell.js";
import { cut, visible } from "./visible_text.js";

const TITLE_CHARS = 120;

class App {
  constructor(root, source) {
    this.root = root;
    this.source = source;
    this.state = { address: parseAddress(location.hash), answers: null, bank: null, news: 0 };
    this.isBusy = false;
    this.isStale = false;
  }

  start() {
    addEventListener("hashchange", () => this.arrive());
    return this.update();
  }

  /** Follow an address that was typed, clicked, or gone back to. */
  async arrive() {
    const before = this.state.address;
    this.state.address = parseAddress(location.hash);
    await this.update();
    const { page, argument } = this.state.address;
    if (page === before.page && argument === before.argument) return;
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }

  grow(position) {
    const { at } = this.state.address;
    this.state.news = at === null ? 0 : position - this.state.bank.head;
    this.update();
  }

  /** Answer and render the address; while that is under way, only the last of later addresses counts. */
  async update() {
    this.isStale = true;
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.isStale) {
      this.isStale = false;
      try {
        await this.answer();
      } catch (defect) {
        this.fail(`This page has a defect: ${defect.message}`);
      }
      if (!this.isStale) this.paint();
    }
    this.isBusy = false;
  }

  async answer() {
    const { address } = this.state;
    const about = await this.source.get("about", { at: address.at });
    if (about.error) return this.fail(about.error);
    const bank = { ...about, head: about.head_position };
    if (!this.state.bank) this.source.follow(bank.head, (position) => this.grow(position));
    this.state.bank = bank;
    // A point between two stops of a file stays: a served page has it.
    if (typeof address.at === "string" && !bank.between) {
      address.at = bank.position < bank.head ? bank.position : null;
      history.replaceState(null, "", formatAddress(address));
    }
    const page = pageNamed(address.page);
    const answers = page ? await this.ask(page, address) : {};
    const failed = Object.values(answers).find((answer) => answer.error);
    Object.assign(this.state, { answers, failed, error: failed?.error ?? null });
  }

  async ask(page, address) {
    const asked = Object.entries(page.ask(address)).map(async ([name, [endpoint, parameters]]) => [name, await this.source.get(endpoint, { ...parameters, at: address.at })]);
    return Object.fromEntries(await Promise.all(asked));
  }

  fail(error) {
    Object.assign(this.state, { answers: {}, failed: null, error });
  }

  paint() {
    const { state } = this;
    if (!state.bank) return render(this.root, h("main", { id: "main" }, h("h1", null, "Nothing to show"), h("p", { class: "note" }, state.error)));
    const context = this.context();
    render(this.root, ...shell(state, context));
    const page = pageNamed(state.address.page);
    const title = page && (page.refused || !state.error) ? page.title(state.answers) : "Not found";
    document.title = visible(`${cut(title, TITLE_CHARS)} – ${state.bank.bank}${state.address.at === null ? "" : ` at ${context.at}`} – rbank-es`);
    document.documentElement.dataset.shown = String(context.at);
  }

  context() {
    const { address, bank } = this.state;
    return {
      address,
      bank,
      at: bank.position,
      source: this.source,
      refresh: () => this.paint(),
      href: (page, argument = "", { at = address.at, ...parameters } = {}) => formatAddress({ page, argument, at, parameters }),
      // Compared with what is shown: the log may have grown since, and its end would then be a past that stays.
      move: (position) => this.replace({ ...this.state.address, at: position < bank.head ? position : null }),
      setParameters: (changes, isNew = false) => this.setParameters(changes, isNew),
    };
  }

  setParameters(changes, isNew) {
    const { address } = this.state;
    const changed = { ...address, parameters: { ...address.parameters, ...changes } };
    if (isNew) location.hash = formatAddress(changed);
    else this.replace(changed);
  }

  /** Go to an address in place of the one before: the slider and filters leave no trail in the history. */
  replace(address) {
    this.state.address = address;
    if (address.at === null) this.state.news = 0;
    history.replaceState(null, "", formatAddress(address));
    this.update();
  }
}

async function begin() {
  const root = document.getElementById("app");
  const block = document.getElementById("data");
  // To draw the summary, which would go at once, takes longer than to unpack the data.
  root.hidden = block !== null;
  try {
    const source = block ? await FileSource.open(JSON.parse(block.textContent)) : new ServedSource();
    await new App(root, source).start();
  } catch (error) {
    // The summary that stands there without a script stays, because it is better than nothing.
    const said = h("p", { class: "note", role: "alert" }, String(error.message ?? error));
    const place = document.createElement("div");
    root.prepend(place);
    render(place, said);
  }
  root.hidden = false;
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

if (typeof document !== "undefined") begin();
