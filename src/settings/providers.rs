//! `config/providers.yaml`: which models there are, and how they are reached.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::{
    config::SHORTEST,
    field::Field,
    network,
    problem::{Problem, Problems},
    reader::{Document, Section},
    references::Environment,
    secret::Secret,
};
use crate::text::did_you_mean;

/// The profile that teams use unless they name another.
pub const DEFAULT_PROFILE: &str = "default";

/// The model of a profile that names none, by provider.
pub const ANTHROPIC_MODEL: &str = "claude-sonnet-5-5";
/// See [`ANTHROPIC_MODEL`].
pub const OPENAI_MODEL: &str = "gpt-5.5";
/// See [`ANTHROPIC_MODEL`].
pub const OFFLINE_MODEL: &str = "demo";

/// A model API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Provider {
    /// The Messages API of Anthropic.
    #[default]
    Anthropic,
    /// The Chat Completions API of OpenAI and of everything compatible.
    OpenAi,
    /// The demo that answers without a network.
    Offline,
}

impl Provider {
    /// As settings and journals name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Offline => "offline",
        }
    }

    /// The model of a profile that names none.
    pub fn default_model(self) -> &'static str {
        match self {
            Self::Anthropic => ANTHROPIC_MODEL,
            Self::OpenAi => OPENAI_MODEL,
            Self::Offline => OFFLINE_MODEL,
        }
    }
}

/// A way to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name in the settings.
    pub name: String,
    /// The API it speaks.
    pub provider: Provider,
    /// Where; none is the provider's own address.
    pub api_url: Option<String>,
    /// What authenticates us.
    pub api_key: Option<Secret>,
    /// The model.
    pub model: String,
    /// Tokens that fit into one request and its answer.
    pub context_window: u32,
    /// Tokens of one answer.
    pub max_output_tokens: u32,
    /// The longest wait for the first byte, and between two pieces of a stream.
    pub response_timeout: Duration,
    /// Profiles that are tried when this one fails, in order.
    pub fallbacks: Vec<String>,
    /// Requests at the same time.
    pub max_concurrency: usize,
    /// Requests a minute; none is no limit.
    pub requests_per_minute: Option<u32>,
    /// What tokens cost; none is unknown.
    pub pricing: Option<Pricing>,
}

impl Profile {
    /// A profile with nothing but defaults.
    pub fn new(name: &str, provider: Provider) -> Self {
        Self {
            name: name.to_owned(),
            provider,
            api_url: None,
            api_key: None,
            model: provider.default_model().to_owned(),
            context_window: 200_000,
            max_output_tokens: 8_192,
            response_timeout: Duration::from_secs(60),
            fallbacks: Vec::new(),
            max_concurrency: 128,
            requests_per_minute: None,
            pricing: None,
        }
    }
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pricing {
    /// Read by the model.
    pub input: f64,
    /// Written by the model.
    pub output: f64,
    /// Read from the provider's prompt cache.
    pub cache_read: f64,
    /// Written to the provider's prompt cache.
    pub cache_write: f64,
}

/// All profiles that can be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Providers {
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
    /// Profiles with a reference that leads nowhere, and where it stands.
    pub disabled: BTreeMap<String, Problem>,
    /// What works and should not stay.
    pub warnings: Vec<Problem>,
    /// Nothing was configured, so the offline demo answers.
    pub demo: bool,
}

/// Why there is no such model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Nobody configured a profile of this name.
    #[error("unknown profile `{name}`; there are: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// All others.
        known: String,
    },
    /// A reference in the profile leads nowhere.
    #[error("profile `{name}` is disabled: {problem}")]
    Disabled {
        /// The profile.
        name: String,
        /// What is wrong.
        problem: Problem,
    },
}

impl Providers {
    /// What there is without a file: a key from the environment, or the demo.
    pub fn from_environment(environment: &Environment) -> Self {
        let keys =
            [("ANTHROPIC_API_KEY", Provider::Anthropic), ("OPENAI_API_KEY", Provider::OpenAi)];
        let found =
            keys.into_iter().find_map(|(name, provider)| Some((environment.get(name)?, provider)));
        let profile = match found {
            Some((key, provider)) => Profile {
                api_key: Some(Secret::new(key)),
                ..Profile::new(DEFAULT_PROFILE, provider)
            },
            None => Profile::new(DEFAULT_PROFILE, Provider::Offline),
        };
        Self {
            demo: profile.provider == Provider::Offline,
            profiles: [(profile.name.clone(), profile)].into(),
            ..Self::default()
        }
    }

    /// A profile by name.
    pub fn profile(&self, name: &str) -> Result<&Profile, ModelError> {
        let name_owned = || name.to_owned();
        if let Some(profile) = self.profiles.get(name) {
            return Ok(profile);
        }
        Err(match self.disabled.get(name) {
            Some(problem) => ModelError::Disabled { name: name_owned(), problem: problem.clone() },
            None => ModelError::Unknown {
                name: name_owned(),
                known: self.names().collect::<Vec<_>>().join(", "),
            },
        })
    }

    /// The profile of a team, with the model it wants: `profile:model`, `profile` or a bare
    /// model name.
    pub fn choose(&self, profile: &str, model: Option<&str>) -> Result<Profile, ModelError> {
        let (profile, model) = match model.map(|model| (model, model.split_once(':'))) {
            Some((_, Some((named, model)))) => (named, Some(model)),
            Some((named, None)) if self.names().any(|name| name == named) => (named, None),
            Some((model, None)) => (profile, Some(model)),
            None => (profile, None),
        };
        let mut chosen = self.profile(profile)?.clone();
        if let Some(model) = model {
            chosen.model = model.to_owned();
        }
        Ok(chosen)
    }

    /// Why no profile answers for this choice: it names one that nobody configured.
    pub(super) fn misnamed(&self, profile: &str, model: Option<&str>) -> Option<String> {
        match self.choose(profile, model) {
            Err(ModelError::Unknown { name, known }) => {
                let hint = match did_you_mean(&name, self.names()) {
                    Some(meant) => format!(" (did you mean `{meant}`?)"),
                    None => format!("; there are: {known}"),
                };
                Some(format!("unknown profile `{name}`{hint}"))
            }
            _ => None,
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().chain(self.disabled.keys()).map(|name| &**name)
    }
}

/// Reads the file, and tells which other files that took. One that says nothing counts as absent.
pub(crate) fn read(
    text: &str,
    document: Document,
    environment: &Environment,
) -> (Result<Providers, Problems>, Vec<PathBuf>) {
    let found = document
        .read(text, |root| root.maybe("profiles", |field| Some(read_profiles(&field, &document))));
    let files = document.referenced();
    let found = document.finish(found).map(|(found, warnings)| Providers {
        warnings,
        ..found.unwrap_or_else(|| Providers::from_environment(environment))
    });
    (found, files)
}

fn read_profiles(field: &Field<'_>, document: &Document) -> Providers {
    let mut providers = Providers::default();
    let members = field.members().unwrap_or_default();
    for (name, field) in &members {
        let good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if name.is_empty() || name.len() > 40 || !name.bytes().all(good) {
            field.reject::<()>("a profile name has 1 to 40 of a-z, 0-9, `_` and `-`");
        }
        let profile = field.section(|section| read_profile(name, section));
        match document.take_unresolved().into_iter().next() {
            Some(problem) => drop(providers.disabled.insert((*name).to_owned(), problem)),
            None => drop(providers.profiles.insert((*name).to_owned(), profile)),
        }
    }
    for (name, field) in &members {
        check_fallbacks(name, field, &providers);
    }
    providers
}

fn read_profile(name: &str, section: &mut Section<'_>) -> Profile {
    section.get("type", (), |field| field.choice(&[("api", ())]));
    let provider = section.get("provider", Provider::default(), |field| {
        field.choice(&[
            ("anthropic", Provider::Anthropic),
            ("openai", Provider::OpenAi),
            ("offline", Provider::Offline),
        ])
    });
    let default = Profile::new(name, provider);
    let api_url = section.maybe("api_url", |field| field.parse(network::api_url));
    let has_key = section.field("api_key").is_some();
    let api_key = section.maybe("api_key", |field| read_key(&field));
    let keyless = match provider {
        Provider::Anthropic => false,
        Provider::OpenAi => match &api_url {
            Some(url) => network::is_private_url(url),
            // It is given and cannot be judged.
            None => section.field("api_url").is_some(),
        },
        Provider::Offline => true,
    };
    if !has_key && !keyless {
        section.reject(format!("profile {name}: missing api_key"));
    }
    let context_window = section
        .get("context_window", default.context_window, |field| field.integer(1_000..=100_000_000));
    let max_output_tokens = section
        .get("max_output_tokens", default.max_output_tokens, |field| field.integer(1..=10_000_000));
    if max_output_tokens >= context_window {
        section.reject("`max_output_tokens` must be less than `context_window`");
    }
    Profile {
        api_url,
        api_key,
        context_window,
        max_output_tokens,
        model: section.get("model", default.model, |field| {
            field.parse(|text| match text.trim() {
                "" => Err("expected the name of a model"),
                _ => Ok(text.to_owned()),
            })
        }),
        response_timeout: section.get("response_timeout", default.response_timeout, |field| {
            field.duration(SHORTEST..=Duration::from_secs(600))
        }),
        fallbacks: section.get("fallbacks", Vec::new(), |field| field.list(|item| item.text())),
        max_concurrency: section
            .get("max_concurrency", default.max_concurrency, |field| field.integer(1..=10_000)),
        requests_per_minute: section
            .maybe("requests_per_minute", |field| field.integer(1..=1_000_000)),
        pricing: section.maybe("pricing", |field| field.section(read_pricing)),
        name: default.name,
        provider,
    }
}

fn read_key(field: &Field<'_>) -> Option<Secret> {
    let (key, literal) = field.secret()?;
    // What cannot stand in a header would fail each request in a way that shows the key.
    if key.expose().is_empty() || !key.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        return field.reject("a key has only printable ASCII characters, and no spaces");
    }
    if literal {
        field.warn("the key stands in the file; keep it in a variable or a file of its own: `${env:NAME}`, `${file:PATH}`");
    }
    Some(key)
}

fn read_pricing(section: &mut Section<'_>) -> Option<Pricing> {
    let mut price = |key| section.maybe(key, |field| field.amount());
    let (input, output) = (price("input"), price("output"));
    let (cache_read, cache_write) = (price("cache_read"), price("cache_write"));
    match (input, output) {
        (Some(input), Some(output)) => Some(Pricing {
            input,
            output,
            cache_read: cache_read.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
        }),
        _ => {
            if section.field("input").is_none() || section.field("output").is_none() {
                section.reject("needs `input` and `output`");
            }
            None
        }
    }
}

/// Reports fallbacks that don't exist, and chains that come back to this profile.
fn check_fallbacks(name: &str, field: &Field<'_>, providers: &Providers) {
    let fallbacks = |name: &str| match providers.profiles.get(name) {
        Some(profile) => &*profile.fallbacks,
        None => &[],
    };
    for fallback in fallbacks(name) {
        if providers.names().all(|known| known != fallback) {
            field.reject::<()>(format!("`fallbacks` names the unknown profile `{fallback}`"));
        }
    }
    // Depth first; each profile is entered once, so the walk ends.
    let mut seen = Vec::new();
    let mut trails = vec![vec![name]];
    while let Some(trail) = trails.pop() {
        let Some(last) = trail.last() else { continue };
        for next in fallbacks(last) {
            if next == name {
                let chain = trail.join(" → ");
                field.reject::<()>(format!("`fallbacks` go round: {chain} → {name}"));
                return;
            }
            if !seen.contains(next) {
                seen.push(next.clone());
                trails.push(trail.iter().copied().chain([&**next]).collect());
            }
        }
    }
}
