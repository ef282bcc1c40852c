(() => {
  "use strict";
  const page = JSON.parse(document.getElementById("figures").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displayModeBar: false, responsive: true, showTips: false, doubleClick: false };

  // Figures hold the light colours; only values under a key that means a colour are exchanged, never a text.
  const paint = (value, key = "") => {
    if (typeof value === "string") {
      return dark.matches && /color$/i.test(key) ? page.dark[value] ?? value : value;
    }
    if (Array.isArray(value)) {
      return value.map((each) => paint(each, key));
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, paint(each, name)]));
    }
    return value;
  };

  const draw = () => {
    for (const [key, figure] of Object.entries(page.figures)) {
      Plotly.react(document.getElementById(key), paint(figure.data), paint(figure.layout), config);
    }
  };

  draw();
  dark.addEventListener("change", draw);
})();
