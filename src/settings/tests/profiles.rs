//! `providers.yaml`

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::settings::{
    load::read_providers,
    providers::{ModelError, Pricing, Profile, Provider, Providers},
    secret::Secret,
};

fn read(text: &str) -> Result<Providers, Vec<String>> {
    let place = place();
    place.write(&place.home.providers_file(), text);
    let found = read_providers(&place.home, &place.environment).0;
    found.map_err(|problems| lines(problems, &place.home))
}

/// SE-96 to SE-111
#[test]
fn every_field_of_a_profile_is_read() {
    let found = read(
        "profiles:
  default:
    type: api
    provider: openai
    api_url: https://models.example.org/v1
    api_key: ${env:KEY}
    model: large
    context_window: 100000
    max_output_tokens: 4000
    response_timeout: 20s
    fallbacks: [spare]
    max_concurrency: 4
    requests_per_minute: 60
    pricing: {input: 1, output: 2.5, cache_write: 3}
  spare: {provider: offline}
",
    )
    .unwrap();

    let default = Profile {
        name: "default".into(),
        provider: Provider::OpenAi,
        api_url: Some("https://models.example.org/v1".into()),
        api_key: Some(Secret::new("sesame".into())),
        model: "large".into(),
        context_window: 100_000,
        max_output_tokens: 4_000,
        response_timeout: Duration::from_secs(20),
        fallbacks: vec!["spare".into()],
        pictures: false,
        max_concurrency: 4,
        requests_per_minute: Some(60),
        pricing: Some(Pricing { input: 1.0, output: 2.5, cache_read: 1.0, cache_write: 3.0 }),
    };
    let spare = Profile::new("spare", Provider::Offline);
    assert_eq!(
        found,
        Providers {
            profiles: [("default".into(), default), ("spare".into(), spare)].into(),
            ..Providers::default()
        }
    );
}

/// SE-97, SE-101, SE-102, SE-107, SE-110
#[test]
fn a_profile_needs_little_more_than_a_key() {
    let found = read("profiles: {default: {api_key: '${env:KEY}'}}").unwrap();

    let expected = Profile {
        name: "default".into(),
        provider: Provider::Anthropic,
        api_url: None,
        api_key: Some(Secret::new("sesame".into())),
        model: "claude-sonnet-5-5".into(),
        context_window: 200_000,
        max_output_tokens: 8_192,
        response_timeout: Duration::from_secs(60),
        fallbacks: vec![],
        pictures: true,
        max_concurrency: 128,
        requests_per_minute: None,
        pricing: None,
    };
    assert_eq!(found.profiles["default"], expected);
}

/// SE-99
#[test]
fn a_key_is_required_except_offline_and_on_private_ground() {
    let missing = |fields: &str| {
        let outcome = read(&format!("profiles: {{p: {{{fields}}}}}"));
        outcome.map_err(|problems| problems.join("\n").contains("profile p: missing api_key"))
    };

    assert_eq!(missing("provider: anthropic"), Err(true));
    assert_eq!(missing("provider: openai"), Err(true));
    assert_eq!(missing("provider: openai, api_url: https://a.example.org"), Err(true));
    assert!(missing("provider: openai, api_url: http://localhost:1/v1").is_ok());
    assert!(missing("provider: offline").is_ok());
}

/// SE-99
#[test]
fn a_key_in_the_file_works_with_a_warning_that_does_not_show_it() {
    let found = read("profiles: {default: {api_key: sk-plain}}").unwrap();

    let key = found.profiles["default"].api_key.as_ref().unwrap();
    assert_eq!(key.expose(), "sk-plain");
    assert_eq!(found.warnings.len(), 1);
    assert_eq!(found.warnings[0].path, "profiles.default.api_key");
    assert!(!format!("{found:?}").contains("sk-plain"));
}

/// SE-99: a newline in a key would otherwise fail every request.
#[test]
fn a_key_that_cannot_be_sent_is_refused_without_showing_it() {
    let found = read("profiles: {default: {api_key: \"sk plain\\n\"}}").unwrap_err();

    assert_eq!(found.len(), 1);
    assert!(found[0].contains("profiles.default.api_key") && !found[0].contains("sk plain"));
}

/// OR-21
#[test]
fn a_key_that_is_not_there_disables_its_profile_only() {
    let found = read(
        "profiles:
  default: {api_key: '${env:GONE}', fallbacks: [spare]}
  spare: {provider: offline}
",
    )
    .unwrap();

    assert_eq!(found.profiles.keys().collect::<Vec<_>>(), ["spare"]);
    assert!(found.profile("spare").is_ok());
    let error = found.profile("default").unwrap_err();
    assert!(matches!(error, ModelError::Disabled { .. }));
    let shown = error.to_string();
    assert!(
        shown.contains("providers.yaml:2:22: profiles.default.api_key: variable `GONE` is not set"),
        "{shown}"
    );
}

/// SE-113
#[test]
fn without_a_file_the_environment_decides() {
    let profile = |variables: Environment| {
        let place = place();
        let found = read_providers(&place.home, &variables).0.unwrap();
        let profile = found.profile("default").unwrap().clone();
        assert_eq!(found.profiles.len(), 1);
        (profile.provider, profile.api_key, found.demo)
    };
    let key = |text: &str| Some(Secret::new(text.into()));
    let both = [("ANTHROPIC_API_KEY", "a"), ("OPENAI_API_KEY", "o")];

    assert_eq!(profile(Environment::fixed(both)), (Provider::Anthropic, key("a"), false));
    assert_eq!(
        profile(Environment::fixed([("OPENAI_API_KEY", "o")])),
        (Provider::OpenAi, key("o"), false)
    );
    assert_eq!(profile(Environment::fixed([])), (Provider::Offline, None, true));
}

/// SE-109
#[test]
fn fallbacks_must_exist_and_come_to_an_end() {
    let found = read(
        "profiles:
  a: {provider: offline, fallbacks: [b]}
  b: {provider: offline, fallbacks: [c, a]}
  c: {provider: offline, fallbacks: [gone]}
  d: {provider: offline, fallbacks: [d]}
  e: {provider: offline, fallbacks: [a]}
",
    )
    .unwrap_err();

    assert_eq!(
        found,
        [
            "config/providers.yaml:2:6: profiles.a: `fallbacks` go round: a → b → a",
            "config/providers.yaml:3:6: profiles.b: `fallbacks` go round: b → a → b",
            "config/providers.yaml:4:6: profiles.c: `fallbacks` names the unknown profile `gone`",
            "config/providers.yaml:5:6: profiles.d: `fallbacks` go round: d → d",
        ]
    );
}

/// SE-114
#[test]
fn every_wrong_field_is_reported() {
    let found = read(
        "profiles:
  Bad Name: {provider: offline}
  x:
    type: oauth
    provider: offline
    api_url: http://api.example.org
    max_concurency: 1
    max_output_tokens: 300000
    pricing: {input: -1, output: 1}
    response_timeout: 11m
  y: {provider: offline, pricing: {input: 1}}
",
    )
    .unwrap_err();

    assert_eq!(
        found,
        [
            "config/providers.yaml:2:13: profiles.Bad Name: a profile name has 1 to 40 of a-z, 0-9, `_` and `-`",
            "config/providers.yaml:4:5: profiles.x: `max_output_tokens` must be less than `context_window`",
            "config/providers.yaml:4:11: profiles.x.type: expected one of api",
            "config/providers.yaml:6:14: profiles.x.api_url: http:// is only for private addresses; use https://",
            "config/providers.yaml:7:5: profiles.x.max_concurency: unknown key (did you mean \"max_concurrency\"?)",
            "config/providers.yaml:9:22: profiles.x.pricing.input: expected a number of 0 or more, found a number",
            "config/providers.yaml:10:23: profiles.x.response_timeout: 11m is not from 1ms to 10m",
            "config/providers.yaml:11:35: profiles.y.pricing: needs `input` and `output`",
        ]
    );
}

/// SE-112
#[test]
fn a_team_names_profile_and_model_in_one_word() {
    let profile = |name: &str, model: &str| Profile {
        model: model.into(),
        ..Profile::new(name, Provider::Offline)
    };
    let profiles: BTreeMap<_, _> = [profile("default", "d"), profile("local", "l")]
        .map(|profile| (profile.name.clone(), profile))
        .into();
    let providers = Providers { profiles, ..Providers::default() };
    let choose = |model| providers.choose("default", model);

    assert_eq!(choose(None), Ok(profile("default", "d")));
    assert_eq!(choose(Some("local")), Ok(profile("local", "l")));
    assert_eq!(choose(Some("large")), Ok(profile("default", "large")));
    assert_eq!(choose(Some("local:llama3:8b")), Ok(profile("local", "llama3:8b")));
    assert_eq!(
        choose(Some("llama3:8b")).unwrap_err().to_string(),
        "unknown profile `llama3`; there are: default, local"
    );
}

/// The search engine is a section beside the profiles; a key that leads nowhere leaves it out, and says so.
#[test]
fn a_search_engine_is_read_with_its_key() {
    let place = place();
    let read = |text: &str, environment: &Environment| {
        place.write(&place.home.providers_file(), text);
        read_providers(&place.home, environment).0
    };
    let brave = "search: {engine: brave, api_key: '${env:BRAVE}'}\n";
    let environment = Environment::fixed([("BRAVE", "sesame")]);

    let found = read(brave, &environment).unwrap();
    let lost = read(brave, &Environment::fixed([])).unwrap();

    let search = found.search.unwrap();
    assert_eq!(search.address(), Some("https://api.search.brave.com"));
    assert_eq!(search.api_key.as_ref().map(|key| key.expose()), Some("sesame"));
    assert!(found.demo, "profiles are as without a file");
    assert_eq!(lost.search, None);
    assert_eq!(lost.warnings.len(), 1, "{:?}", lost.warnings);
    assert!(lost.warnings[0].to_string().contains("variable `BRAVE` is not set"));
    for (text, reason) in [
        ("search: {}\n", "needs an `api_url`"),
        ("search: {engine: brave}\n", "needs an `api_key`"),
        ("search: {engine: other, api_url: 'https://a.example'}\n", "brave"),
        ("search: {api_url: 'http://a.example'}\n", "http:// is only for private addresses"),
    ] {
        let wrong = read(text, &environment).unwrap_err().to_string();
        assert!(wrong.contains(reason), "{text}: {wrong}");
    }
}
