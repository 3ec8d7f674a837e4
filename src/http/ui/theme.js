// @ts-check
// Sets the colours before the first paint. A classic script, since a module runs too late for that.
(() => {
  const KEY = "hivewright.theme";
  const ORDER = ["system", "light", "dark"];
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = () => {
    try {
      const kept = localStorage.getItem(KEY) ?? "";
      return ORDER.includes(kept) ? kept : "system";
    } catch {
      return "system";
    }
  };
  let theme = read();
  const show = () => {
    document.documentElement.dataset.theme = theme;
    document.documentElement.dataset.shade = theme === "system" ? (system.matches ? "dark" : "light") : theme;
  };
  system.addEventListener("change", show);
  show();
  const hivewrightTheme = {
    current: () => theme,
    next() {
      theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // A browser without storage still switches, for this visit.
      }
      show();
      return theme;
    },
  };
  Object.assign(window, { hivewrightTheme });
})();
