use super::{super::yaml::parse, *};

fn tree(text: &str) -> Yaml {
    parse(text, "test").unwrap()
}

fn written(draft: &FileDraft) -> Yaml {
    Yaml::Map(draft.entries.clone())
}

fn told(draft: &FileDraft) -> Vec<String> {
    draft.items.iter().map(Item::to_string).collect()
}

/// OR-29
#[test]
fn the_log_level_moves_and_what_is_unknown_is_named() {
    let draft = config(tree("log_level: debug\ncolour: red\n"));

    assert_eq!(written(&draft), tree("log: {level: debug}"));
    assert_eq!(
        told(&draft),
        ["skipped   settings     config.yaml: colour: nothing here corresponds to it"]
    );
}

/// OR-29
#[test]
fn literal_keys_move_to_the_vault_and_a_missing_model_is_written_out() {
    let (draft, renamed) = providers(tree(
        "profiles:\n  default: {type: api, api_key: sk-ant-0123456789}\n  \
         My GPT: {type: api, provider: openai, api_key: short, model: gpt-4o, context_window: 128000}\n",
    ));

    assert_eq!(
        written(&draft),
        tree(
            "profiles:\n  default: {type: \"api\", api_key: \"${vault:provider.default.api_key}\", \
             model: \"claude-sonnet-4-20250514\"}\n  my-gpt: {type: \"api\", provider: \"openai\", \
             api_key: \"short\", model: \"gpt-4o\", context_window: 128000}\n"
        )
    );
    let secrets: Vec<_> =
        draft.secrets.iter().map(|(key, value)| (key.as_str(), value.expose())).collect();
    assert_eq!(secrets, [("provider.default.api_key", "sk-ant-0123456789")]);
    assert_eq!(renamed["My GPT"], "my-gpt");
    let all = format!("{:?}{:?}", draft.items, draft.changes);
    assert!(!all.contains("sk-ant"), "{all}");
    assert!(!all.contains("short,"), "{all}");
}

/// OR-29
#[test]
fn channels_without_a_trust_section_are_closed_and_it_is_said_how_to_open_them() {
    let draft = channels(tree(
        "ws: {enabled: true}\ncli: {enabled: true}\n\
         discord: {token: abcdefgh.ijkl, watched_channels: [\"discord:12\", \"34\"]}\n",
    ));

    assert_eq!(
        written(&draft),
        tree(
            "ws: {enabled: true}\ndiscord: {token: \"${vault:discord.token}\", \
             watched_channels: [\"12\", \"34\"]}\ntrust: {default_policy: \"deny\"}\n"
        )
    );
    let told = told(&draft).join("\n");
    assert!(told.contains("`trust.channels.ws.policy: allow`"), "{told}");
    assert!(told.contains("skipped   settings     channels.yaml: cli"), "{told}");
}

/// OR-29
#[test]
fn a_trust_section_says_the_same_as_before() {
    let draft = channels(tree(
        "trust:\n  channels:\n    other: {policy: deny, sender_allowlist: [\"7\"], \
         channel_overrides: {\"discord:12\": {policy: allow}}}\n    ws: {policy: allow}\n",
    ));

    assert_eq!(
        written(&draft),
        tree(
            "ws: {enabled: false}\ntrust:\n  default_policy: \"allow\"\n  channels:\n    \
             discord: {policy: deny, sender_allowlist: [\"7\"], channel_overrides: {\"12\": \
             {policy: allow}}}\n    ws: {policy: allow}\n"
        )
    );
}
