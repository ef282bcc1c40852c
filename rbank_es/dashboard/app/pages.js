// The pages, in the order of the tabs. To add one: write its module, and name it here.
import { itemPage } from "./item_page.js";
import { itemsPage } from "./items_page.js";
import { overviewPage } from "./overview_page.js";
import { runPage } from "./run_page.js";
import { runsPage } from "./runs_page.js";

/**
 * A page is {name, tab, under, title(answers), ask(address), view(answers, context), later(answers)}. `tab` is its word
 * in the navigation, `under` the page whose tab is marked instead. `ask` returns the answers that it needs by name,
 * each as [endpoint, parameters]. `later` returns the position at which something that is not there yet begins.
 */
export const PAGES = [overviewPage, runsPage, runPage, itemsPage, itemPage];

/** Return the page of a name; undefined where there is none. */
export function pageNamed(name) {
  return PAGES.find((page) => page.name === name);
}
