//! Validation of what was converted, by the readers of this program.

use hivewright_actors::scheduler::{
    ports::View,
    trigger::{
        definition::Definition,
        validation::{self, Check},
    },
};

use super::Goal;
use crate::{
    settings::{
        channels, config,
        document::Document,
        problem::Problems,
        providers,
        references::{References, SystemVault},
        team,
    },
    triggers::{calendar::Zones, expressions::LinearExpressions},
};

/// What the readers here say to what was converted.
pub(super) trait Checks {
    fn settings(&self, name: &str, text: &str) -> Result<(), Problems>;
    fn team(&self, name: &str, text: &str) -> Result<(), Problems>;
    fn trigger(&self, definition: &Definition) -> Result<(), validation::Problems>;
}

/// The vault as it will be: it has whatever is asked for.
struct PromisedVault;

impl SystemVault for PromisedVault {
    fn value(&self, _: &str) -> Result<String, String> {
        Ok("a-value-of-the-vault".to_owned())
    }

    fn version(&self) -> u64 {
        0
    }
}

impl Checks for Goal<'_> {
    fn settings(&self, name: &str, text: &str) -> Result<(), Problems> {
        let environment = self.environment.clone().with_vault(PromisedVault);
        let references = References::new(&environment, self.home.data());
        let document = Document::with_references(name, references);
        match name {
            "config.yaml" => config::read(text, document, self.home).map(drop),
            "channels.yaml" => channels::read(text, document).map(drop),
            _ => providers::read(text, document, &environment).0.map(drop),
        }
    }

    fn team(&self, name: &str, text: &str) -> Result<(), Problems> {
        team::read(text, Document::plain("config.yaml"), name, self.home, None).map(drop)
    }

    fn trigger(&self, definition: &Definition) -> Result<(), validation::Problems> {
        let view = View { zone: &self.zone, calendar: &Zones, now: self.now, since: self.now };
        Check { view, expressions: &LinearExpressions, is_new: true }.run(definition)
    }
}
