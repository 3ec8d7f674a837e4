//! Settings files and rules.

use std::collections::BTreeMap;

use super::{
    super::{
        found::{File, Found},
        report::{Item, Kind},
        settings::{self, Converted},
        target::{Target, mark},
        vault,
        yaml::{Yaml, settle},
    },
    BEFORE, Checks, Marked, NewFile, Plan,
};

impl Plan {
    /// Settings files; returns what profiles are called now.
    pub(super) fn settings(
        &mut self,
        found: &Found,
        target: &Target,
        checks: &dyn Checks,
    ) -> BTreeMap<String, String> {
        let mut profiles = BTreeMap::new();
        self.file("config.yaml", &found.config, target, checks, settings::config);
        self.file("providers.yaml", &found.providers, target, checks, |tree| {
            let (converted, renamed) = settings::providers(tree);
            profiles = renamed;
            converted
        });
        self.file("channels.yaml", &found.channels, target, checks, settings::channels);
        profiles
    }

    fn file(
        &mut self,
        name: &'static str,
        found: &File,
        target: &Target,
        checks: &dyn Checks,
        convert: impl FnOnce(Yaml) -> Converted,
    ) {
        let tree = match found {
            Ok(Some(tree)) => tree.clone(),
            Ok(None) => return,
            Err(reason) => return self.report.push(Item::faulty(Kind::Settings, name, reason)),
        };
        let mark = mark("settings", name, "");
        let converted = convert(tree);
        if target.has(&mark) {
            for (key, value) in converted.secrets {
                self.secrets.push((value, key));
            }
            return self.report.push(Item::left(Kind::Settings, name, BEFORE));
        }
        if target.settings.contains(name) {
            let reason = "there is such a file with settings of its own, and it stays as it is";
            return self.report.push(Item::left(Kind::Settings, name, reason));
        }
        let mut tree = Yaml::Map(converted.entries);
        let gone = match settle(&mut tree, |text| checks.settings(name, text)) {
            Ok(gone) => gone,
            Err(problems) => {
                let reason = problems.to_string();
                return self.report.push(Item::faulty(Kind::Settings, name, reason));
            }
        };
        let text = tree.write();
        self.report.push(Item::taken(Kind::Settings, name, &converted.changes));
        self.report.items.extend(converted.items);
        for problem in gone {
            let name = format!("{name}: {}", problem.path);
            let item = Item::faulty(Kind::Settings, name, refusal(problem.reason));
            self.report.push(item);
        }
        for (key, value) in converted.secrets {
            // What it was for may be gone.
            if text.contains(&format!("${{vault:{key}}}")) {
                self.secret(&key, &value, target);
            }
        }
        let thing = NewFile { name, text };
        self.files.push(Marked { mark, thing });
    }

    fn secret(&mut self, key: &str, value: &crate::settings::secret::Secret, target: &Target) {
        let mark = mark("settings", key, "");
        let item = match vault::convert(key, value, true) {
            _ if target.has(&mark) => {
                self.secrets.push((value.clone(), key.to_owned()));
                Item::left(Kind::Vault, key, BEFORE)
            }
            Ok(thing) => {
                self.secrets.push((value.clone(), key.to_owned()));
                self.system.push(Marked { mark, thing });
                Item::taken(Kind::Vault, key, &[])
            }
            Err(reason) => Item::faulty(Kind::Vault, key, reason),
        };
        self.report.push(item.of("system"));
    }

    pub(super) fn rules(&mut self, found: &Found, target: &Target) {
        for name in &found.rules {
            let mark = mark("rules", name, "");
            let item = if target.has(&mark) {
                Item::left(Kind::Rule, name, BEFORE)
            } else if target.rules.contains(name) {
                let reason = "there is a rule of this name, and it stays as it is";
                Item::left(Kind::Rule, name, reason)
            } else {
                let thing = name.clone();
                self.rules.push(Marked { mark, thing });
                Item::taken(Kind::Rule, name, &[])
            };
            self.report.push(item);
        }
        for name in &found.other_rules {
            let reason = "only files that end in `.md` are rules";
            self.report.push(Item::left(Kind::Rule, name, reason));
        }
    }
}

/// Why a reader refused something, to someone who has not written it.
pub(super) fn refusal(reason: String) -> String {
    if reason.starts_with("unknown key") {
        "there is no such setting here".to_owned()
    } else {
        reason
    }
}
