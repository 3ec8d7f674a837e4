//! Engines: what answers the turns of teams.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use dashmap::DashMap;
use hivewright_actors::{
    engine::{
        Block, Engine, EngineEvent, EngineFailure, Message, Paid, StepRequest, SystemPrompt,
        Unbooked,
    },
    ids::MAIN,
    shared_list::SharedList,
    task::outcome::Code,
};
use tokio_util::sync::CancellationToken;

use crate::{
    files::FileStore,
    sandbox::process::Sandbox,
    scrub::Mask,
    settings::{
        config::{self, Sdk},
        providers::{Profile, Provider},
    },
    vault::{Vault, scrubbers::Scrubbers},
};

pub mod acp;
pub mod claude;
pub mod codex;
pub mod harness;
pub mod installed;
pub mod native;
pub mod pi;
mod pictures;
pub mod relay;
mod scrubbed_sink;

use harness::{AgentEngine, Harness, program::Program};
use installed::{Installations, Installed};
use native::{Link, NativeEngine, retry::RetryPolicy, state::ProfileState};

/// A profile, and the model to ask for if not the profile's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    pub profile: String,
    /// The model, if not the profile's.
    pub model: Option<String>,
}

/// A question for [`Engines::ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// What the model is told first.
    pub system: &'a str,
    pub text: &'a str,
    /// How many tokens the answer may have.
    pub max_tokens: u32,
    /// How long all tries together may take.
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile `{name}`; there are: {}", known.join(", "))]
pub struct UnknownProfile {
    pub name: String,
    /// The profiles there are, sorted.
    pub known: Vec<String>,
}

/// Makes engines. What is known of a profile (who waits for it, what it refuses) is shared between
/// the engines it serves.
pub struct Engines {
    http: reqwest::Client,
    retry: Arc<RetryPolicy>,
    states: DashMap<String, Arc<ProfileState>>,
    vault: Vault,
    /// Where command-line agents run.
    harness: Option<Arc<Harness>>,
    installations: Installations,
    /// What people attach, and what tools show.
    files: Option<FileStore>,
}

impl Engines {
    /// Engines over this client, see [`crate::providers::client::build`].
    pub fn new(http: reqwest::Client, retry: RetryPolicy) -> Self {
        Self {
            http,
            retry: Arc::new(retry),
            states: DashMap::new(),
            vault: Vault::absent(),
            harness: None,
            installations: Installations::default(),
            files: None,
        }
    }

    /// The same, with command-line agents that run in this sandbox and see the same files. `bridge` is this program.
    pub fn with_agents(self, sandbox: Arc<Sandbox>, bridge: PathBuf) -> Self {
        let retry = Arc::clone(&self.retry);
        let (http, files) = (self.http.clone(), self.files.clone());
        let harness = Arc::new(Harness::new(sandbox, http, retry, bridge, files));
        Self { harness: Some(harness), ..self }
    }

    /// The same, for models that are shown the pictures among these files.
    pub fn with_files(self, files: FileStore) -> Self {
        Self { files: Some(files), ..self }
    }

    /// The same, for teams whose secrets are in this vault.
    pub fn with_vault(self, vault: Vault) -> Self {
        Self { vault, ..self }
    }

    /// An engine that asks the chosen profile, and its fallbacks if that fails.
    pub fn native(
        &self,
        profiles: &HashMap<String, Arc<Profile>>,
        choice: &ModelChoice,
    ) -> Result<Arc<dyn Engine>, UnknownProfile> {
        Ok(Arc::new(self.build(profiles, choice, None)?))
    }

    /// A command-line agent as it is installed now; none for an engine that is part of the service. Blocks.
    pub fn installed(
        &self,
        sdk: Sdk,
        settings: &config::Engines,
    ) -> Result<Option<Installed>, String> {
        match sdk {
            Sdk::Native => Ok(None),
            sdk => self.installations.find(sdk, settings).map(Some),
        }
    }

    /// An engine that is a command-line agent. Model calls go to the chosen profile, and what is asked outside of a
    /// conversation to `native`. Blocks.
    pub fn agent(
        &self,
        sdk: Sdk,
        settings: &config::Engines,
        profiles: &HashMap<String, Arc<Profile>>,
        chosen: &Profile,
        native: Arc<dyn Engine>,
    ) -> Result<Arc<dyn Engine>, String> {
        speaks(sdk, chosen)?;
        let program: Arc<dyn Program> = match sdk {
            Sdk::Native => return Ok(native),
            Sdk::Claude => Arc::new(claude::Claude),
            Sdk::Codex => Arc::new(codex::Codex { mode: settings.codex.mode }),
            Sdk::Pi => {
                let api = match chosen.provider {
                    Provider::OpenAi => pi::Api::OpenAi,
                    Provider::Anthropic | Provider::Offline => pi::Api::Anthropic,
                };
                Arc::new(pi::Pi { mode: settings.pi.mode, api })
            }
            Sdk::Acp => {
                let args = settings.acp.command.iter().skip(1).cloned().collect();
                Arc::new(acp::Acp { args, env: settings.acp.env.clone() })
            }
        };
        let harness = self.harness.clone().ok_or("command-line agents cannot run here")?;
        let choice =
            ModelChoice { profile: chosen.name.clone(), model: Some(chosen.model.clone()) };
        let links = self.links(profiles, &choice, None).map_err(|error| error.to_string())?;
        let scrubbers = Arc::new(Scrubbers::new(self.vault.clone(), keys(&links)));
        Ok(Arc::new(AgentEngine {
            installed: self.installations.find(sdk, settings)?,
            harness,
            program,
            sdk,
            links: links.into(),
            scrubbers,
            native,
        }))
    }

    /// Asks for one answer in words, without tools, and tells what each try has cost. The main team's
    /// place in the line is used.
    pub async fn ask(
        &self,
        profiles: &HashMap<String, Arc<Profile>>,
        choice: &ModelChoice,
        question: Question<'_>,
        pay: Arc<dyn Fn(Paid) + Send + Sync>,
    ) -> Result<String, EngineFailure> {
        let lost = pay.clone();
        let events = Arc::new(move |event| {
            if let EngineEvent::Spent(paid) = event {
                lost(paid);
            }
        });
        let engine = self
            .build(profiles, choice, Some(question.max_tokens))
            .map_err(|error| EngineFailure::new(Code::ConfigError, error.to_string()))?;
        let request = StepRequest {
            team: MAIN.into(),
            turn: "question".into(),
            step: 1,
            task: None,
            system: Arc::new(SystemPrompt {
                shared: question.system.into(),
                ..SystemPrompt::default()
            }),
            tools: Arc::default(),
            earlier: SharedList::default(),
            messages: Arc::new(vec![Message::User(question.text.to_owned())]),
            thinking: None,
            unbooked: Unbooked::default(),
            cancel: CancellationToken::new(),
        };
        let reply = tokio::time::timeout(question.timeout, engine.run(request, events))
            .await
            .map_err(|_| {
                let message = format!(
                    "profile `{}` did not answer within {} s",
                    choice.profile,
                    question.timeout.as_secs_f64()
                );
                EngineFailure::new(Code::Stalled, message)
            })??;
        pay(Paid { profile: reply.profile, model: reply.model, usage: reply.usage });
        let words = reply.blocks.into_iter().filter_map(|block| match block {
            Block::Text { text } => Some(text),
            _ => None,
        });
        Ok(words.collect::<Vec<_>>().join("\n\n"))
    }

    fn build(
        &self,
        profiles: &HashMap<String, Arc<Profile>>,
        choice: &ModelChoice,
        max_output_tokens: Option<u32>,
    ) -> Result<NativeEngine, UnknownProfile> {
        let links = self.links(profiles, choice, max_output_tokens)?;
        let scrubbers = Scrubbers::new(self.vault.clone(), keys(&links));
        let (http, retry) = (self.http.clone(), Arc::clone(&self.retry));
        Ok(NativeEngine::new(http, retry, links, scrubbers, self.files.clone()))
    }

    /// The chosen profile and its fallbacks, with the models that they are asked for.
    fn links(
        &self,
        profiles: &HashMap<String, Arc<Profile>>,
        choice: &ModelChoice,
        max_output_tokens: Option<u32>,
    ) -> Result<Vec<Link>, UnknownProfile> {
        let chain = chain(profiles, &choice.profile).ok_or_else(|| {
            let mut known: Vec<String> = profiles.keys().cloned().collect();
            known.sort();
            UnknownProfile { name: choice.profile.clone(), known }
        })?;
        let links = chain.iter().enumerate();
        let links = links.map(|(position, profile)| Link {
            model: match &choice.model {
                Some(model) if position == 0 => model.clone(),
                _ => profile.model.clone(),
            },
            max_output_tokens: max_output_tokens.unwrap_or(profile.max_output_tokens),
            state: self.state(profile),
            profile: Arc::clone(profile),
        });
        Ok(links.collect())
    }

    fn state(&self, profile: &Profile) -> Arc<ProfileState> {
        let mut state = self
            .states
            .entry(profile.name.clone())
            .or_insert_with(|| Arc::new(ProfileState::new(profile)));
        if !state.fits(profile) {
            *state = Arc::new(ProfileState::new(profile));
        }
        Arc::clone(&state)
    }
}

/// Whether an engine speaks the format of a profile. The error says that it does not.
pub fn speaks(sdk: Sdk, profile: &Profile) -> Result<(), String> {
    let speaks = match sdk {
        // Which format an agent of the protocol speaks only its operator knows.
        Sdk::Native | Sdk::Pi | Sdk::Acp => true,
        Sdk::Claude => profile.provider != Provider::OpenAi,
        Sdk::Codex => profile.provider != Provider::Anthropic,
    };
    if speaks {
        return Ok(());
    }
    let (name, provider) = (&profile.name, profile.provider.as_str());
    Err(format!(
        "profile `{name}` is of the provider `{provider}`, whose format {sdk} does not speak"
    ))
}

/// The keys of profiles: what nobody is shown.
fn keys(links: &[Link]) -> Vec<Mask> {
    let keys = links.iter().filter_map(|link| link.profile.api_key.as_ref());
    keys.map(|key| Mask::hidden(key.expose())).collect()
}

/// A profile and its fallbacks with theirs, each once, in the order they are tried. A fallback that
/// cannot be used now is passed over.
pub(crate) fn chain(
    profiles: &HashMap<String, Arc<Profile>>,
    first: &str,
) -> Option<Vec<Arc<Profile>>> {
    let mut chain = vec![];
    let mut seen = HashSet::new();
    let mut open = vec![profiles.get(first)?];
    while let Some(profile) = open.pop() {
        if seen.insert(&profile.name) {
            chain.push(Arc::clone(profile));
            let fallbacks = profile.fallbacks.iter().rev();
            open.extend(fallbacks.filter_map(|name| profiles.get(name)));
        }
    }
    Some(chain)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{providers::client, settings::providers::Provider};

    fn profiles(profiles: &[(&str, &[&str])]) -> HashMap<String, Arc<Profile>> {
        profiles
            .iter()
            .map(|(name, fallbacks)| {
                let profile = Profile {
                    fallbacks: fallbacks.iter().map(|name| (*name).to_owned()).collect(),
                    ..Profile::new(name, Provider::Offline)
                };
                ((*name).to_owned(), Arc::new(profile))
            })
            .collect()
    }

    fn choice(profile: &str) -> ModelChoice {
        ModelChoice { profile: profile.into(), model: None }
    }

    fn engines() -> Engines {
        Engines::new(client::build().unwrap(), RetryPolicy::default())
    }

    /// SE-109
    #[test]
    fn fallbacks_are_tried_in_order_and_each_once() {
        let profiles =
            profiles(&[("a", &["b", "gone", "d"]), ("b", &["c", "a"]), ("c", &[]), ("d", &["b"])]);

        let names: Vec<String> =
            chain(&profiles, "a").unwrap().iter().map(|profile| profile.name.clone()).collect();

        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    /// SE-112
    #[test]
    fn an_unknown_profile_is_answered_with_those_there_are() {
        let error =
            engines().native(&profiles(&[("b", &[]), ("a", &[])]), &choice("x")).err().unwrap();

        assert_eq!(error.to_string(), "unknown profile `x`; there are: a, b");
    }

    /// SE-122, CH-132
    #[actix::test]
    async fn a_question_is_answered_in_words() {
        let answer = engines()
            .ask(
                &profiles(&[("default", &[])]),
                &choice("default"),
                Question {
                    system: "be short",
                    text: "#reply yes",
                    max_tokens: 200,
                    timeout: Duration::from_secs(5),
                },
                Arc::new(|_| {}),
            )
            .await;

        assert_eq!(answer, Ok("yes".into()));
    }

    #[actix::test]
    async fn a_question_does_not_wait_longer_than_told() {
        tokio::time::pause();

        let answer = engines()
            .ask(
                &profiles(&[("default", &[])]),
                &choice("default"),
                Question {
                    system: "",
                    text: "#wait 60000",
                    max_tokens: 200,
                    timeout: Duration::from_secs(5),
                },
                Arc::new(|_| {}),
            )
            .await;

        assert_eq!(
            answer,
            Err(EngineFailure::new(Code::Stalled, "profile `default` did not answer within 5 s"))
        );
    }

    /// SE-110
    #[actix::test]
    async fn the_limits_of_a_profile_hold_for_all_its_engines() {
        for (max_concurrency, requests_per_minute, seconds) in
            [(2, None, 1), (1, None, 2), (2, Some(1), 61)]
        {
            let limited = Profile {
                max_concurrency,
                requests_per_minute,
                ..Profile::new("default", Provider::Offline)
            };
            let profiles = HashMap::from([("default".to_owned(), Arc::new(limited))]);
            let (engines, choice) = (engines(), choice("default"));
            let ask = || {
                let question = Question {
                    system: "",
                    text: "#wait 1000",
                    max_tokens: 200,
                    timeout: Duration::from_secs(600),
                };
                engines.ask(&profiles, &choice, question, Arc::new(|_| {}))
            };
            tokio::time::pause();
            let begin = tokio::time::Instant::now();

            let (first, second) = tokio::join!(ask(), ask());

            assert_eq!((first, second), (Ok("Done.".into()), Ok("Done.".into())));
            assert_eq!(begin.elapsed().as_secs(), seconds);
            tokio::time::resume();
        }
    }

    #[test]
    fn a_profile_keeps_its_state_until_its_limits_change() {
        let engines = engines();
        let profile = Profile::new("a", Provider::Offline);
        let wider = Profile { max_concurrency: 7, ..profile.clone() };

        let first = engines.state(&profile);

        assert!(Arc::ptr_eq(&first, &engines.state(&profile)));
        assert!(!Arc::ptr_eq(&first, &engines.state(&wider)));
    }
}
