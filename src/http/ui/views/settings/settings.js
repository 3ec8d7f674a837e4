// @ts-check
// Settings and the state of the service: what counts and where it comes from, who has access, what the doctor says.

import { may } from "../../core/api.js";
import { make } from "../../core/dom.js";
import { View } from "../../core/view.js";
import { head } from "../../parts/marks.js";
import { tabs } from "../../parts/tabs.js";
import "./access.js";
import "./audit.js";
import "./config.js";
import "./models.js";
import "./plugins.js";
import "./service.js";
import "./trust.js";

/** Each with the scope that it takes to look at it. */
const TABS = [
  ["service", "Service", "read"],
  ["models", "Models", "read"],
  ["config", "All settings", "read"],
  ["doctor", "Doctor", "read"],
  ["tokens", "Tokens", "admin"],
  ["logins", "Logins", "admin"],
  ["trust", "Trust", "operate"],
  ["identities", "Identities", "admin"],
  ["policy", "Policy", "admin"],
  ["plugins", "Plugins", "read"],
  ["audit", "Audit", "admin"],
  ["backups", "Backups", "admin"],
];

class Settings extends View {
  /** @param {import("../../core/place.js").Place} place */
  moved(place) {
    const part = this.place.rest[0] === place.rest[0] && this.querySelector(":scope > [data-part]");
    super.moved(place);
    if (part) /** @type {View} */ (part).moved(place);
  }

  render() {
    const tab = this.place.rest[0] ?? "service";
    const offered = TABS.filter(([, , needs]) => may(needs));
    return [
      head("Settings", "How the service is set up, who has access, and whether everything works."),
      tabs("settings", offered, tab),
      make(`hw-${offered.some(([id]) => id === tab) ? tab : "service"}-part`, { key: tab, "data-part": tab }),
    ];
  }
}

customElements.define("hw-settings", Settings);
