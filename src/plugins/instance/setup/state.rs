//! Steps of a setup: what a plugin may ask for and show, and what a person may fill in.

use hivewright_actors::words;
use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

const MOST_FIELDS: usize = 20;
const MOST_OPTIONS: usize = 100;
/// The longest value that a person gives, in bytes.
const LONGEST_VALUE: usize = 16 << 10;
/// How often a wizard that waits may be asked, in milliseconds.
const POLLS: std::ops::RangeInclusive<u64> = 500..=30_000;

/// Why a step is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    #[error("the plugin has no setup")]
    None,
    #[error("there is no such setup any more; begin again")]
    Unknown,
    #[error("the setup does not wait for anything to be filled in")]
    WrongState,
    #[error("{reason}")]
    Unfit { field: String, reason: String },
    /// The words are about the plugin.
    #[error("{0}")]
    Plugin(String),
}

/// Where a wizard stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schemars(rename = "PluginSetupState")]
pub enum SetupState {
    /// A person fills these in.
    AwaitingUserInput { fields: Vec<SetupField> },
    /// A person does something elsewhere; it is asked for again after a while.
    AwaitingExternal {
        instructions: String,
        /// What a code to be scanned says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        qr_text: Option<String>,
        /// A page to be opened.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redirect_url: Option<String>,
        #[serde(default)]
        poll_interval_ms: u64,
    },
    /// It is over, and the plugin is switched on with what was found out.
    Done {
        #[serde(default, skip_serializing)]
        #[schemars(skip)]
        config: Map<String, Value>,
    },
    /// It is over, and nothing has changed.
    Error { message: String },
}

/// Something that a person fills in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginSetupField")]
pub struct SetupField {
    pub key: String,
    pub label: String,
    #[serde(rename = "type")]
    pub kind: SetupFieldType,
    /// What can be chosen from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    /// It may be left out.
    #[serde(default)]
    pub optional: bool,
}

words! {
    /// What is filled in.
    #[schemars(rename = "PluginSetupFieldType")]
    pub enum SetupFieldType {
        /// Words.
        Text = "text",
        /// Words that nobody sees.
        Password = "password",
        /// The number of a telephone.
        Phone = "phone",
        /// A number.
        Number = "number",
        /// One of some words.
        Select = "select",
    }
}

impl SetupState {
    /// The state as people may see it: a plugin's words are a stranger's.
    pub(super) fn checked(self, clean: &dyn Fn(&str) -> String) -> Self {
        let wrong = |message: &str| Self::Error { message: message.to_owned() };
        match self {
            Self::AwaitingUserInput { fields } => {
                if fields.is_empty() || fields.len() > MOST_FIELDS {
                    return wrong("The plugin asks for nothing, or for too much.");
                }
                let fields = fields.into_iter().map(|field| SetupField {
                    label: clean(&field.label),
                    placeholder: field.placeholder.as_deref().map(clean),
                    options: field.options.iter().take(MOST_OPTIONS).map(|it| clean(it)).collect(),
                    ..field
                });
                let fields: Vec<_> = fields.collect();
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                let is_named = |field: &SetupField| {
                    (1..=64).contains(&field.key.len()) && field.key.bytes().all(is_plain)
                };
                if fields.iter().all(is_named) {
                    Self::AwaitingUserInput { fields }
                } else {
                    wrong("The plugin asks for something without a proper name.")
                }
            }
            Self::AwaitingExternal { instructions, qr_text, redirect_url, poll_interval_ms } => {
                let is_safe =
                    |url: &String| Url::parse(url).is_ok_and(|url| url.scheme() == "https");
                if !redirect_url.iter().all(is_safe) {
                    return wrong("The plugin sends you to an address that is not https.");
                }
                Self::AwaitingExternal {
                    instructions: clean(&instructions),
                    qr_text: qr_text.as_deref().map(clean),
                    redirect_url,
                    poll_interval_ms: poll_interval_ms.clamp(*POLLS.start(), *POLLS.end()),
                }
            }
            Self::Error { message } => Self::Error { message: clean(&message) },
            done @ Self::Done { .. } => done,
        }
    }
}

/// Checks what a person filled in, and returns what of it must not be seen.
pub(super) fn check(
    fields: &[SetupField],
    values: &Map<String, Value>,
) -> Result<Vec<Zeroizing<String>>, SetupError> {
    let unfit = |field: &str, reason: &str| SetupError::Unfit {
        field: field.to_owned(),
        reason: format!("`{field}`: {reason}"),
    };
    if let Some(unknown) = values.keys().find(|key| !fields.iter().any(|field| field.key == **key))
    {
        return Err(unfit(unknown, "nobody asked for it"));
    }
    let mut passwords = Vec::new();
    for field in fields {
        let key = &field.key;
        let value = match values.get(key) {
            None => "",
            Some(Value::String(text)) if text.len() <= LONGEST_VALUE => text,
            Some(_) => return Err(unfit(key, "expected a text of at most 16 KiB")),
        };
        if value.trim().is_empty() {
            if field.optional {
                continue;
            }
            return Err(unfit(key, "is missing"));
        }
        match field.kind {
            SetupFieldType::Select if !field.options.iter().any(|option| option == value) => {
                return Err(unfit(key, "is none of what can be chosen"));
            }
            SetupFieldType::Number if value.trim().parse::<f64>().is_err() => {
                return Err(unfit(key, "is no number"));
            }
            SetupFieldType::Password => passwords.push(Zeroizing::new(value.to_owned())),
            _ => {}
        }
    }
    Ok(passwords)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(state: Value) -> SetupState {
        let state: SetupState = serde_json::from_value(state).unwrap();
        state.checked(&|text| text.replace("hunter22", "***"))
    }

    /// PL-54
    #[test]
    fn what_a_plugin_says_of_its_steps_is_bounded() {
        let asks = read(json!({"kind": "awaiting_user_input",
            "fields": [{"key": "a", "label": "say hunter22", "type": "password"}]}));
        let waits = read(
            json!({"kind": "awaiting_external", "instructions": "Scan.", "poll_interval_ms": 1}),
        );
        let leads = read(json!({"kind": "awaiting_external", "instructions": "Go.",
            "redirect_url": "javascript:alert(1)", "poll_interval_ms": 900}));
        let done = read(json!({"kind": "done", "config": {"secret": "hunter22"}}));

        assert!(
            matches!(&asks, SetupState::AwaitingUserInput { fields } if fields[0].label == "say ***")
        );
        assert!(matches!(waits, SetupState::AwaitingExternal { poll_interval_ms: 500, .. }));
        assert!(matches!(leads, SetupState::Error { .. }));
        assert_eq!(serde_json::to_value(done).unwrap(), json!({"kind": "done"}));
        for wrong in [
            json!({"kind": "awaiting_user_input", "fields": []}),
            json!({"kind": "awaiting_user_input", "fields": [{"key": "a b", "label": "x", "type": "text"}]}),
        ] {
            assert!(matches!(read(wrong), SetupState::Error { .. }));
        }
    }

    /// PL-54, PL-55
    #[test]
    fn what_is_filled_in_is_what_was_asked_for() {
        let field = |key: &str, kind, optional| SetupField {
            key: key.to_owned(),
            label: key.to_owned(),
            kind,
            options: vec!["red".to_owned()],
            placeholder: None,
            optional,
        };
        let fields = [
            field("secret", SetupFieldType::Password, false),
            field("colour", SetupFieldType::Select, true),
            field("port", SetupFieldType::Number, true),
        ];
        let check = |values: Value| check(&fields, values.as_object().unwrap());

        let fine = check(json!({"secret": "s3cret", "colour": "red", "port": "8"})).unwrap();
        let wrong = |values| match check(values) {
            Err(SetupError::Unfit { field, .. }) => field,
            other => panic!("{other:?}"),
        };

        assert_eq!(fine, [Zeroizing::new("s3cret".to_owned())]);
        assert_eq!(wrong(json!({})), "secret");
        assert_eq!(wrong(json!({"secret": 5})), "secret");
        assert_eq!(wrong(json!({"secret": "s", "other": "x"})), "other");
        assert_eq!(wrong(json!({"secret": "s", "colour": "blue"})), "colour");
        assert_eq!(wrong(json!({"secret": "s", "port": "high"})), "port");
    }
}
