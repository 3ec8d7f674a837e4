//! Who is let in, as `channels.yaml` says it; a fault in it never lets anyone in.

use hivewright_actors::{
    channel_type::ChannelType,
    router::trust::{Policy, Stance, Trust, TypeTrust},
};

use super::*;
use crate::settings::{
    channels::{Channels, Read, WebSocket},
    load,
    problem::Problems,
};

fn read(place: &Place, text: &str) -> Result<Read, Problems> {
    place.write(&place.home.channels_file(), text);
    load::read_channels(&place.home, &place.environment)
}

fn settings(place: &Place, text: &str) -> Read {
    read(place, text).unwrap()
}

fn channels(text: &str) -> Channels {
    let found = settings(&place(), text);
    assert_eq!(found.distrust.0, []);
    found.channels
}

/// OR-14, CH-115
#[test]
fn the_whole_section_is_read() {
    let found = channels(
        "trust:
  default_policy: allow
  channels:
    ws:
      policy: deny
      sender_allowlist: [ann, '${env:KEY}']
      sender_denylist: [bob]
      channel_overrides:
        'ws:1': {policy: allow}
        'ws:2': {}
    discord:
      channel_overrides: {'discord:77': {policy: deny}}
    plugin.irc: {policy: allow}
",
    );

    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let ws = TypeTrust {
        policy: Some(Stance::Deny),
        sender_allowlist: list(&["ann", "sesame"]),
        sender_denylist: list(&["bob"]),
        channel_overrides: [("ws:1".into(), Stance::Allow)].into(),
    };
    let discord = TypeTrust {
        channel_overrides: [("77".into(), Stance::Deny)].into(),
        ..TypeTrust::default()
    };
    let irc = TypeTrust { policy: Some(Stance::Allow), ..TypeTrust::default() };
    let expected = Trust {
        default_policy: Stance::Allow,
        channels: [
            (ChannelType::Ws, ws),
            (ChannelType::Discord, discord),
            (ChannelType::Plugin("irc".into()), irc),
        ]
        .into(),
    };
    assert_eq!(found.trust, Policy::Given(expected));
}

/// CH-115, CH-116, OR-11
#[test]
fn a_section_that_says_nothing_denies_and_none_is_none() {
    for text in ["trust: {}", "trust: {channels: {}}", "trust: {default_policy: }"] {
        assert_eq!(channels(text).trust, Policy::Given(Trust::default()), "{text}");
    }
    for text in ["ws: {enabled: true}", "trust:", "trust: null"] {
        assert_eq!(channels(text).trust, Policy::None, "{text}");
    }
    assert_eq!(Channels::default().trust, Policy::None);
}

/// CH-115, CH-118, OR-10: the rest of the file still counts.
#[test]
fn a_fault_in_the_section_lets_nobody_in_and_is_named() {
    let place = place();

    let found = settings(
        &place,
        "ws: {enabled: true}
trust:
  default_polcy: allow
  channels:
    slack: {policy: allow}
    ws:
      policy: maybe
      sender_allowlist: [ann, 5, 'two words', '${env:GONE}']
      channel_overrides: {'ws:1': {polcy: allow}}
    discord:
      channel_overrides: {'77': {policy: allow}, 'discord:77': {policy: deny}}
",
    );

    assert_eq!(
        lines(&found.distrust, &place.home),
        [
            "config/channels.yaml:3:3: trust.default_polcy: unknown key (did you mean \"default_policy\"?)",
            "config/channels.yaml:5:12: trust.channels.slack: unknown channel type `slack`; there are `ws`, `discord`, `cli`, `api` and `plugin.<key>` for channel plugins",
            "config/channels.yaml:7:15: trust.channels.ws.policy: expected one of allow, deny",
            "config/channels.yaml:8:31: trust.channels.ws.sender_allowlist[1]: expected text, found a number; put it in quotes",
            "config/channels.yaml:8:34: trust.channels.ws.sender_allowlist[2]: a sender has 1 to 128 printable characters without space (384 bytes)",
            "config/channels.yaml:8:47: trust.channels.ws.sender_allowlist[3]: variable `GONE` is not set",
            "config/channels.yaml:9:36: trust.channels.ws.channel_overrides.ws:1.polcy: unknown key (did you mean \"policy\"?)",
            "config/channels.yaml:11:64: trust.channels.discord.channel_overrides.discord:77: names a channel that was named before",
        ]
    );
    let channels = found.channels;
    assert_eq!((channels.ws, channels.trust), (WebSocket::On, Policy::Unusable));
}

/// CH-118, OR-24
#[test]
fn a_section_that_is_no_map_and_a_file_that_is_no_yaml_let_nobody_in() {
    for text in ["trust: allow", "trust: [ws]", "trust: {channels: [ws]}"] {
        let found = settings(&place(), text);
        assert!(!found.distrust.0.is_empty(), "{text}");
        assert_eq!(found.channels.trust, Policy::Unusable, "{text}");
    }
    for text in ["trust: {", "trust: {}\ntrust: {default_policy: allow}", "trst: {}"] {
        let closed = match read(&place(), text) {
            Err(_) => true,
            Ok(found) => found.channels.trust == Policy::Unusable,
        };
        assert!(closed, "{text}");
    }
    assert_eq!(Channels::closed().trust, Policy::Unusable);
}

/// CH-118: the doctor sees it, and a running service refuses the file.
#[test]
fn a_fault_in_the_section_is_reported_with_all_others() {
    let place = place();
    settings(&place, "ws: {enabled: true}\ntrust: {polcy: allow}\n");

    let report = load::check(&place.home, &place.environment);
    let reread = load::read_channels(&place.home, &place.environment).and_then(Read::whole);

    let expected = ["config/channels.yaml:2:9: trust.polcy: unknown key"];
    assert_eq!(lines(report.problems, &place.home), expected);
    assert_eq!(lines(reread.unwrap_err(), &place.home), expected);
}

/// CH-107
#[test]
fn a_policy_for_the_command_line_is_warned_of() {
    let found = settings(&place(), "trust: {channels: {cli: {policy: deny}}}");

    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].reason.contains("always let in"));
}
