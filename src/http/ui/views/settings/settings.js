// @ts-check
// Settings and the state of the service: what counts and where it comes from, who has access, what the doctor says.

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

const TABS = [
  ["service", "Service"],
  ["models", "Models"],
  ["config", "Settings"],
  ["doctor", "Doctor"],
  ["tokens", "Tokens"],
  ["logins", "Logins"],
  ["trust", "Trust"],
  ["identities", "Identities"],
  ["policy", "Policy"],
  ["plugins", "Plugins"],
  ["audit", "Audit"],
  ["backups", "Backups"],
];

class Settings extends View {
  render() {
    const tab = this.place.rest[0] ?? "service";
    return [
      head("Settings", "How this service is set up, who has access, and whether all is well."),
      tabs("settings", TABS, tab),
      make(`hw-${TABS.some(([id]) => id === tab) ? tab : "service"}-part`, { key: tab }),
    ];
  }
}

customElements.define("hw-settings", Settings);
