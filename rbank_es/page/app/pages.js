// The pages, in the order of the tabs. To add one: write its module, and name it here.
import { changesPage } from "./changes_page.js";
import { comparePage } from "./compare_page.js";
import { healthPage } from "./health_page.js";
import { itemPage } from "./item_page.js";
import { itemsPage } from "./items_page.js";
import { leakagePage } from "./leakage_page.js";
import { overviewPage } from "./overview_page.js";
import { reviewPage } from "./review_page.js";
import { runPage } from "./run_page.js";
import { runsPage } from "./runs_page.js";
import { searchPage } from "./search_page.js";

/**
 * A page is {name, tab, under, title(answers), ask(address), view(answers, context), refused(failed, context)}. `tab` is
 * its word in the navigation, `under` the page whose tab is marked instead. `ask` returns the answers that it needs by
 * name, each as [endpoint, parameters]. `refused` is shown in place of a plain note where a question was refused.
 */
export const PAGES = [overviewPage, runsPage, runPage, comparePage, itemsPage, itemPage, reviewPage, leakagePage, healthPage, changesPage, searchPage];

/** Return the page of a name; undefined where there is none. */
export function pageNamed(name) {
  return PAGES.find((page) => page.name === name);
}
