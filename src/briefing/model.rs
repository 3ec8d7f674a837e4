//! Model of a role: which profile answers, with which engine, and what its calls cost.

use std::{collections::HashMap, fmt::Display, path::PathBuf, sync::Arc};

use hivewright_actors::{
    briefing::{BriefError, Price},
    engine::Engine,
    task::Options,
};

use super::{Inner, Kit, config_error};
use crate::{engines, prompt::subagents::Subagent, settings::providers::Profile};

/// Where the settings of a role stand: with its team, and with its subagent.
pub(super) struct RoleSource {
    pub(super) team_file: PathBuf,
    pub(super) subagent: Option<Arc<Subagent>>,
}

impl RoleSource {
    /// Says in which file a field is wrong: in the subagent's if it is its own, else in the team's.
    pub(super) fn wrong(&self, is_own: bool, field: &str, reason: &dyn Display) -> BriefError {
        let file = match &self.subagent {
            Some(subagent) if is_own => subagent.file.clone(),
            _ => self.team_file.display().to_string(),
        };
        config_error(format!("{file}: {field}: {reason}"))
    }
}

/// What answers in a role.
pub(super) struct Chosen {
    pub(super) profile: Profile,
    pub(super) engine: Arc<dyn Engine>,
}

impl Inner {
    pub(super) fn choose(
        &self,
        kit: &Kit,
        options: &Options,
        source: &RoleSource,
    ) -> Result<Chosen, BriefError> {
        // What the person chose for the topic goes before what the team has, and not before a subagent's own.
        let profile = options.profile.as_deref();
        let own = source.subagent.as_ref().and_then(|subagent| subagent.model.as_deref());
        let (is_own, model) = match own {
            Some(model) => (true, Some(model)),
            None => (false, kit.team.model.as_deref().filter(|_| profile.is_none())),
        };
        let profile = profile.unwrap_or(&kit.team.provider_profile);
        let field = if is_own { "model" } else { "provider_profile" };
        let unknown = |error: &dyn Display| match options.profile {
            Some(_) if !is_own => config_error(format!("the model of this topic: {error}")),
            _ => source.wrong(is_own, field, error),
        };
        let profile = kit.models.providers.choose(profile, model);
        let profile = profile.map_err(|error| unknown(&error))?;
        let native = kit.models.engine(&self.engines, &profile).map_err(|error| unknown(&error))?;
        let (sdk, profiles) = (kit.team.sdk, &kit.models.profiles);
        let engine = self.engines.agent(sdk, &kit.agents, profiles, &profile, native);
        let engine = engine.map_err(|error| source.wrong(false, "sdk", &error))?;
        Ok(Chosen { profile, engine })
    }
}

/// The first profile without prices among those that may answer.
pub(super) fn unpriced(profiles: &HashMap<String, Arc<Profile>>, first: &str) -> Option<String> {
    let chain = engines::chain(profiles, first).unwrap_or_default();
    let unpriced = chain.iter().find(|profile| profile.pricing.is_none());
    unpriced.map(|profile| profile.name.clone())
}

/// What a call of a profile costs.
pub(super) fn price(profile: &Profile) -> Price {
    let per_token = |price: f64| price / 1_000_000.0;
    Price {
        max_output: u64::from(profile.max_output_tokens),
        input_usd: profile.pricing.as_ref().map_or(0.0, |pricing| per_token(pricing.input)),
        output_usd: profile.pricing.as_ref().map_or(0.0, |pricing| per_token(pricing.output)),
    }
}
