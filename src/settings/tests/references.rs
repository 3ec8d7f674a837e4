//! What reports of settings files say of values that references lead to: nothing.

use super::*;
use crate::settings::load::{self, File, Report, ServiceFile};

const CANARY: &str = "canary/5417 of Nobody";

/// Every text of every file, with a hole for a reference.
const TEXTS: [(&str, &str); 36] = [
    ("config", "timezone: @"),
    ("config", "log: {level: @}"),
    ("config", "server: {bind: @}"),
    ("config", "server: {public_url: @}"),
    ("config", "server: {tls: {cert: @}}"),
    ("config", "server: {trusted_proxies: [@]}"),
    ("config", "server: {allowed_origins: [@]}"),
    ("config", "store: {backend: @}"),
    ("config", "store: {durability: @}"),
    ("config", "defaults: {sdk: @}"),
    ("config", "defaults: {allowed_tools: [@]}"),
    ("config", "backup: {dir: @}"),
    ("config", "policy: [{id: @, resource: 'tool:x', effect: deny}]"),
    ("config", "policy: [{note: @, resource: 'tool:x', effect: no}]"),
    ("config", "policy: [{expires_at: @, resource: 'tool:x', effect: deny}]"),
    ("config", "policy: [{team: @, resource: 'tool:x', effect: deny}]"),
    ("config", "policy: [{resource: @, effect: deny}]"),
    ("config", "policy: [{mode: @, resource: 'tool:x', effect: deny}]"),
    ("config", "policy: [{principal: @, resource: 'tool:x', effect: deny}]"),
    ("config", "policy: [{resource: 'tool:x', effect: @}]"),
    ("config", "policy: [{risk: @, resource: 'tool:x', effect: ask}]"),
    ("config", "policy: [{resource: 'tool:x', effect: deny, when: [{pointer: @, glob: 'x'}]}]"),
    ("config", "policy: [{resource: 'tool:x', effect: deny, when: [{pointer: /a, glob: @}]}]"),
    ("providers", "profiles: {default: {type: @}}"),
    ("providers", "profiles: {default: {provider: @, api_key: k}}"),
    ("providers", "profiles: {default: {api_url: @, api_key: k}}"),
    ("providers", "profiles: {default: {api_key: @}}"),
    ("providers", "profiles: {default: {model: @, api_key: k}}"),
    ("providers", "profiles: {default: {api_key: k, fallbacks: [@]}}"),
    ("channels", "topics: {model: @}"),
    ("channels", "topics: {profile: @}"),
    ("channels", "trust: {default_policy: @}"),
    ("channels", "trust: {channels: {ws: {policy: @}}}"),
    ("channels", "trust: {channels: {ws: {sender_allowlist: [@]}}}"),
    ("channels", "trust: {channels: {ws: {sender_denylist: [@]}}}"),
    ("channels", "trust: {channels: {ws: {channel_overrides: {'ws:a': {policy: @}}}}}"),
];

fn is_told(report: &Report) -> bool {
    let told = format!("{report:?}").to_lowercase();
    ["5417", "canary", "nobody"].iter().any(|part| told.contains(part))
}

/// SC-05: what is wrong with a value is said without the value.
#[test]
fn no_report_quotes_what_a_reference_stands_for() {
    let place = place();
    let environment = Environment::fixed([("SECRET", CANARY)]);
    let path = place.home.data().join("secret");
    place.write(&path, CANARY);
    let mut wrong = 0;
    for (file, text) in TEXTS {
        for reference in ["${env:SECRET}", "${file:secret}", "a${env:SECRET}b"] {
            let text = text.replace('@', &format!("\"{reference}\""));
            let name = place.home.config_file().with_file_name(format!("{file}.yaml"));
            place.write(&name, &text);

            let report = load::check(&place.home, &environment);

            assert!(!is_told(&report), "{text}: {report:?}");
            wrong += usize::from(!report.problems.0.is_empty());
            fs::remove_file(name).unwrap();
        }
    }
    assert!(wrong > 60, "{wrong}");
}

/// SC-05: a text that somebody sends is read as it stands, so nothing can be learnt by sending it.
#[test]
fn a_text_that_was_sent_is_never_expanded() {
    let place = place();
    let path = place.home.data().join("secret");
    place.write(&path, CANARY);
    for (file, text) in TEXTS {
        let which = match file {
            "config" => File::Service(ServiceFile::Config),
            "providers" => File::Service(ServiceFile::Providers),
            _ => File::Service(ServiceFile::Channels),
        };
        let told = |reference: &str| {
            let text = text.replace('@', &format!("\"{reference}\""));
            load::validate(&place.home, &which, &text)
        };

        let found = told("${file:secret}");

        assert_eq!(found, told("${file:absent}"), "{text}");
        assert_eq!(found, told("${env:HOME}"), "{text}");
        assert_eq!(found, told("${vault:KEY}"), "{text}");
        assert!(told("${secret}").is_err(), "{text}");
    }
}
