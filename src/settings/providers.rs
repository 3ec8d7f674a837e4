//! `config/providers.yaml`: which models there are, what searches the web, and how they are reached.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use hivewright_actors::words;

use super::{
    declare::settings,
    document::Document,
    field::Field,
    network,
    problem::{Problem, Problems},
    reader::{Group, Section},
    references::Environment,
    search::{self, Search},
    secret::Secret,
    setting::{SHORTEST, Setting, choices, read_api_url},
};
use crate::text::did_you_mean;

/// The profile that teams use unless they name another.
pub const DEFAULT_PROFILE: &str = "default";

words! {
    /// A model API.
    #[derive(Default)]
    pub enum Provider {
        /// The Messages API of Anthropic.
        #[default]
        Anthropic = "anthropic",
        /// The Chat Completions API of OpenAI and of everything compatible.
        OpenAi = "openai",
        /// The demo that answers without a network.
        Offline = "offline",
    }
}

words! {
    /// How a profile is paid for. Other versions have more of them.
    enum ProfileType { Api = "api" }
}

choices!(Provider);

impl Provider {
    /// The variable that holds its key, unless it needs none.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Offline => None,
        }
    }

    /// The model of a profile that names none.
    pub fn default_model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-sonnet-5-5",
            Self::OpenAi => "gpt-5.5",
            Self::Offline => "demo",
        }
    }
}

settings! {
    /// A way to a model.
    pub struct Profile {
        #[skip = "its key in the file"]
        name: String = String::new(),
        /// The API it speaks; `openai` is everything that speaks its Chat Completions API.
        provider: Provider = Provider::Anthropic,
        /// What authenticates us. ${env:NAME} is a variable, ${file:PATH} a file, relative to the data dir,
        /// ${vault:KEY} what `hivewright vault set KEY --system` has set.
        #[example("${env:ANTHROPIC_API_KEY}")]
        api_key: Option<Secret> = None,
        /// Where it is. Absent: the provider's own address.
        #[read(read_api_url)]
        #[example("https://api.anthropic.com")]
        api_url: Option<String> = None,
        /// Absent: `claude-sonnet-5-5` of Anthropic, `gpt-5.5` of OpenAI.
        #[read(read_model)]
        model: String = provider.default_model().to_owned(),
        /// Tokens that fit into one request and its answer.
        #[range(1_000..=100_000_000)]
        context_window: u32 = 200_000,
        /// Tokens of one answer.
        #[range(1..=10_000_000)]
        max_output_tokens: u32 = 8_192,
        /// The longest wait for the first byte, and between two pieces of an answer.
        #[range(SHORTEST..=Duration::from_secs(600))]
        response_timeout: Duration = Duration::from_secs(60),
        /// Profiles that are tried when this one fails, in order.
        #[example("[local]")]
        fallbacks: Vec<String> = Vec::new(),
        /// The model sees: pictures that people and tools bring are shown to it. Absent: models of Anthropic do.
        pictures: bool = provider == Provider::Anthropic,
        /// Requests at the same time.
        #[range(1..=10_000)]
        max_concurrency: usize = 128,
        /// Requests a minute. Absent: no limit.
        #[range(1..=1_000_000)]
        #[example("1000")]
        requests_per_minute: Option<u32> = None,
        /// US dollars for a million tokens. Absent: costs are unknown, tokens are still counted.
        #[example("{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}")]
        pricing: Option<Pricing> = None,
    }
}

impl Profile {
    pub fn new(name: &str, provider: Provider) -> Self {
        Self {
            name: name.to_owned(),
            provider,
            model: provider.default_model().to_owned(),
            pictures: provider == Provider::Anthropic,
            ..Self::default()
        }
    }
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pricing {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// All profiles that can be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Providers {
    pub profiles: BTreeMap<String, Profile>,
    /// Profiles with a reference that leads nowhere, and where it stands.
    pub disabled: BTreeMap<String, Problem>,
    pub warnings: Vec<Problem>,
    /// What `web_search` asks. Without one there is no such tool.
    pub search: Option<Search>,
    /// Where `search_skill_repository` asks. Without it there is no such tool.
    pub skill_repository: Option<String>,
    /// Nothing was configured, so the offline demo answers.
    pub demo: bool,
}

/// Why there is no such model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("unknown profile `{name}`; there are: {known}")]
    Unknown { name: String, known: String },
    /// A reference in the profile leads nowhere.
    #[error("profile `{name}` is disabled: {problem}")]
    Disabled { name: String, problem: Problem },
}

impl Providers {
    /// The keys of all profiles and of the search engine: what nothing may show.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let keys = self.profiles.values().filter_map(|profile| profile.api_key.as_ref());
        let of_search = self.search.iter().filter_map(|search| search.api_key.as_ref());
        keys.chain(of_search).map(|key| key.expose())
    }

    /// What there is without a file: a key from the environment, or the demo.
    pub fn from_environment(environment: &Environment) -> Self {
        let found = Provider::ALL
            .iter()
            .find_map(|provider| Some((environment.get(provider.key_variable()?)?, *provider)));
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

    pub fn profile(&self, name: &str) -> Result<&Profile, ModelError> {
        self.profiles.get(name).ok_or_else(|| {
            let name = name.to_owned();
            match self.disabled.get(&name) {
                Some(problem) => ModelError::Disabled { name, problem: problem.clone() },
                None => {
                    let known = self.names().collect::<Vec<_>>().join(", ");
                    let known = if known.is_empty() { "none".to_owned() } else { known };
                    ModelError::Unknown { name, known }
                }
            }
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
    let found = document.read(text, |root| {
        let profiles = root.maybe("profiles", |field| read_profiles(&field));
        let search = root.maybe("search", |field| Some(read_search(&field)));
        (profiles, search, root.maybe("skill_repository", |field| read_api_url(&field)))
    });
    let files = document.referenced();
    let found =
        document.finish(found).map(|((profiles, search, skill_repository), mut warnings)| {
            let search = search.and_then(|search| search.map_err(|lost| warnings.push(lost)).ok());
            Providers {
                warnings,
                search,
                skill_repository,
                ..profiles.unwrap_or_else(|| Providers::from_environment(environment))
            }
        });
    (found, files)
}

/// The search engine, or the reference in it that leads nowhere: then there is none.
fn read_search(field: &Field<'_>) -> Result<Search, Problem> {
    let (search, unresolved) =
        field.section(|section| (search::read(section), section.take_unresolved()));
    match unresolved {
        Some(problem) => Err(problem),
        None => Ok(search),
    }
}

fn read_profiles(field: &Field<'_>) -> Option<Providers> {
    let mut providers = Providers::default();
    let members = field.members().unwrap_or_default();
    for (name, field) in &members {
        let good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        if name.is_empty() || name.len() > 40 || !name.bytes().all(good) {
            field.reject::<()>("a profile name has 1 to 40 of a-z, 0-9, `_` and `-`");
        }
        let (profile, unresolved) =
            field.section(|section| (read_profile(name, section), section.take_unresolved()));
        match unresolved {
            Some(problem) => drop(providers.disabled.insert((*name).to_owned(), problem)),
            None => drop(providers.profiles.insert((*name).to_owned(), profile)),
        }
    }
    for (name, field) in &members {
        check_fallbacks(name, field, &providers);
    }
    Some(providers)
}

fn read_profile(name: &str, section: &mut Section<'_>) -> Profile {
    section.maybe("type", |field| field.choice::<ProfileType>());
    let profile = Profile { name: name.to_owned(), ..Profile::read(section) };
    let keyless = match profile.provider {
        Provider::Anthropic => false,
        Provider::OpenAi => match &profile.api_url {
            Some(url) => network::is_private_url(url),
            // It is given and cannot be judged.
            None => section.field("api_url").is_some(),
        },
        Provider::Offline => true,
    };
    if !keyless && section.field("api_key").is_none() {
        section.reject(format!("profile {name}: missing api_key"));
    }
    if profile.max_output_tokens >= profile.context_window {
        section.reject("`max_output_tokens` must be less than `context_window`");
    }
    profile
}

fn read_model(field: &Field<'_>) -> Option<String> {
    field.parse(|text| match text.trim() {
        "" => Err("expected the name of a model"),
        _ => Ok(text.to_owned()),
    })
}

/// The key of an API.
impl Setting for Secret {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
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
}

impl Setting for Pricing {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        field.section(|section| {
            let mut price = |key| section.maybe(key, |field| field.amount());
            let (input, output) = (price("input"), price("output"));
            let (cache_read, cache_write) = (price("cache_read"), price("cache_write"));
            if section.field("input").is_none() || section.field("output").is_none() {
                section.reject("needs `input` and `output`");
            }
            let (input, output) = input.zip(output)?;
            Some(Self {
                input,
                output,
                cache_read: cache_read.unwrap_or(input),
                cache_write: cache_write.unwrap_or(input),
            })
        })
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
