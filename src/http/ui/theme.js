// Sets the colours before the first paint. A classic script, since a module runs too late for that.
(() => {
  const KEY = "hivewright.theme";
  const ORDER = ["system", "light", "dark"];
  const read = () => {
    try {
      const kept = localStorage.getItem(KEY);
      return ORDER.includes(kept) ? kept : "system";
    } catch {
      return "system";
    }
  };
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
  };
  show(read());
  window.hivewrightTheme = {
    current: read,
    next() {
      const theme = ORDER[(ORDER.indexOf(read()) + 1) % ORDER.length];
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // A browser without storage still switches, for this visit.
      }
      show(theme);
      return theme;
    },
  };
})();
