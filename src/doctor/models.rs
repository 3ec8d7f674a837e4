//! The models: which profiles there are, and with `--deep` whether they answer.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hivewright_actors::engine::EngineFailure;
use serde_json::json;

use crate::{
    api::{
        doctor::Finding,
        models::{ModelRow, ModelTrial, ModelTried},
    },
    engines::{Engines, ModelChoice, Question, native::retry::RetryPolicy},
    providers::{
        client::{self, ClientError},
        models::{list, told},
    },
    scrub::REDACTED,
    settings::{
        document::Document,
        problem::Problems,
        providers::{self, DEFAULT_PROFILE, Profile, Provider, Providers},
        references::{Environment, References},
    },
};

/// Stands for a key that only the running service knows, in the form that a key has.
pub const UNKNOWN: &str = "known-to-the-running-service-alone";
pub const ID: &str = "models";
/// What a profile is called while it is tried out.
const NEW: &str = "new";
/// A model that takes longer for one word is not of much use.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Looks at all profiles; `deep` also asks each of them something, and tells how many it has asked of how many.
pub async fn check(
    providers: Option<Providers>,
    deep: bool,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Vec<Finding> {
    let Some(providers) = providers else {
        return vec![Finding::error(
            ID,
            "no model can be used, since providers.yaml is wrong",
            "mend the settings first",
        )];
    };
    let mut findings: Vec<_> = providers.profiles.values().map(describe).collect();
    if providers.demo {
        findings = vec![Finding::warn(
            ID,
            "none is configured: the offline demo answers",
            "`hivewright init` connects one; or set ANTHROPIC_API_KEY or OPENAI_API_KEY, or write config/providers.yaml",
        )];
    } else if !providers.profiles.contains_key(DEFAULT_PROFILE) {
        findings.push(Finding::error(
            ID,
            format!("there is no usable profile `{DEFAULT_PROFILE}`, which the main team uses"),
            "add it to config/providers.yaml",
        ));
    }
    if deep {
        findings.extend(ask_all(providers, progress).await);
    }
    findings
}

fn describe(profile: &Profile) -> Finding {
    let (name, provider) = (&profile.name, profile.provider.as_str());
    let key = match (&profile.api_key, profile.provider) {
        (Some(_), _) => "key present",
        (None, Provider::Offline) => "needs no key",
        (None, _) => "no key",
    };
    let address = profile.api_url.as_ref().map(|url| format!(" at {url}")).unwrap_or_default();
    Finding::ok(ID, format!("`{name}` is {provider} {}{address}, {key}", profile.model))
}

/// Asks each profile one question, all at once, without their fallbacks.
async fn ask_all(providers: Providers, progress: &(dyn Fn(u64, u64) + Sync)) -> Vec<Finding> {
    let http = match client::build() {
        Ok(http) => http,
        Err(error) => {
            let fix = "see whether the machine's certificates can be read";
            return vec![Finding::error(ID, error.to_string(), fix)];
        }
    };
    let engines = Engines::new(http, RetryPolicy::default());
    let (total, answered) = (providers.profiles.len() as u64, AtomicU64::new(0));
    progress(0, total);
    let asked = providers.profiles.into_values().map(async |profile| {
        let finding = ask(&engines, profile).await;
        progress(answered.fetch_add(1, Ordering::Relaxed) + 1, total);
        finding
    });
    futures_util::future::join_all(asked).await
}

async fn ask(engines: &Engines, profile: Profile) -> Finding {
    if profile.api_key.as_ref().is_some_and(|key| key.expose() == UNKNOWN) {
        let message = format!("`{}` was not asked: its key is in the vault", profile.name);
        let fix = "stop the service to have it asked, or send the main team a message";
        return Finding::warn(ID, message, fix);
    }
    let name = profile.name.clone();
    match answer(engines, profile).await {
        Ok(_) => Finding::ok(ID, format!("`{name}` answers")),
        Err(failure) => Finding::error(
            ID,
            format!("`{name}` does not answer: {failure}"),
            "check its key, address and model in config/providers.yaml",
        ),
    }
}

/// Asks the API of each profile, all at once.
pub async fn list_all(http: &reqwest::Client, providers: &Providers) -> Vec<ModelRow> {
    let rows = providers.profiles.values().map(async |profile| {
        let (models, unlisted) = told(list(http, profile).await);
        let Profile { name, provider, model, .. } = profile;
        ModelRow {
            profile: name.clone(),
            provider: *provider,
            model: model.clone(),
            models,
            unlisted,
        }
    });
    futures_util::future::join_all(rows).await
}

/// Why a model was not asked at all.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What it is to be asked with makes no profile.
    #[error("{0}")]
    Invalid(Problems),
}

/// Asks a model one question, and which models its API has.
pub async fn try_out(trial: &ModelTrial) -> Result<ModelTried, TrialError> {
    let profile = profile(trial).map_err(TrialError::Invalid)?;
    let http = client::build()?;
    let (models, unlisted) = told(list(&http, &profile).await);
    let model = profile.model.clone();
    let engines = Engines::new(http, RetryPolicy::default());
    let asked = answer(&engines, profile).await;
    // A provider may repeat the key when it refuses it.
    let unseen = |text: String| match &trial.api_key {
        Some(key) if !key.is_empty() => text.replace(key.as_str(), REDACTED),
        _ => text,
    };
    let (answer, error) = match asked {
        Ok(answer) => (Some(unseen(answer)), None),
        Err(failure) => {
            let told = unseen(failure.to_string());
            // It has no name yet that a person would know.
            let name = format!("profile `{NEW}`: ");
            (None, Some(told.strip_prefix(&name).map_or(told.clone(), str::to_owned)))
        }
    };
    Ok(ModelTried { model, answer, error, models, unlisted })
}

/// The profile that such a section of `providers.yaml` would be.
fn profile(trial: &ModelTrial) -> Result<Profile, Problems> {
    let file = json!({"profiles": {NEW: trial}}).to_string();
    let document = Document::with_references("providers.yaml", References::unfollowed());
    let read = providers::read(&file, document, &Environment::fixed([])).0?;
    let found = read.profiles.into_values().next();
    Ok(found.unwrap_or_else(|| Profile::new(NEW, trial.provider)))
}

/// Asks a profile one question, without its fallbacks.
pub async fn answer(engines: &Engines, profile: Profile) -> Result<String, EngineFailure> {
    let name = profile.name.clone();
    let profiles = HashMap::from([(name.clone(), Arc::new(profile))]);
    let choice = ModelChoice { profile: name, model: None };
    let question = Question {
        system: "Answer with one word.",
        text: "Say: ready",
        max_tokens: 256,
        timeout: ANSWER_TIMEOUT,
    };
    engines.ask(&profiles, &choice, question, Arc::new(|_| {})).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{references::Environment, secret::Secret};

    /// OP-76, SE-113
    #[tokio::test]
    async fn a_missing_key_is_told_from_the_demo_and_no_key_is_shown() {
        let demo = Providers::from_environment(&Environment::fixed([]));
        let keyed = Providers::from_environment(&Environment::fixed([(
            "OPENAI_API_KEY",
            "sk-very-secret",
        )]));
        let mut local = Profile::new("local", Provider::OpenAi);
        local.api_url = Some("http://localhost:11434/v1".into());
        local.api_key = None::<Secret>;
        let nameless =
            Providers { profiles: [("local".to_owned(), local)].into(), ..Providers::default() };

        let found = [
            check(Some(demo), false, &|_, _| {}).await,
            check(Some(keyed), false, &|_, _| {}).await,
            check(Some(nameless), false, &|_, _| {}).await,
        ];

        let expected = [
            vec![Finding::warn(
                ID,
                "none is configured: the offline demo answers",
                "`hivewright init` connects one; or set ANTHROPIC_API_KEY or OPENAI_API_KEY, or write config/providers.yaml",
            )],
            vec![Finding::ok(ID, "`default` is openai gpt-5.5, key present")],
            vec![
                Finding::ok(ID, "`local` is openai gpt-5.5 at http://localhost:11434/v1, no key"),
                Finding::error(
                    ID,
                    "there is no usable profile `default`, which the main team uses",
                    "add it to config/providers.yaml",
                ),
            ],
        ];
        assert_eq!(found, expected);
    }

    /// OP-76
    #[tokio::test]
    async fn a_deep_look_asks_each_model() {
        let demo = Providers::from_environment(&Environment::fixed([]));

        let found = check(Some(demo), true, &|_, _| {}).await;

        assert_eq!(found.last(), Some(&Finding::ok(ID, "`default` answers")));
    }
}
