//! `hivewright plugin setup`: the channel of a plugin is set up step by step, as the plugin asks.

use std::{
    io::{self, IsTerminal},
    time::Duration,
};

use clap::Args;
use serde_json::{Map, Value};

use crate::{
    api::{flags::pair, team_plugins::*},
    cli::{
        client::Service,
        context::Context,
        failure::{Exit, Failure},
        prompt,
        screen::complain,
    },
    plugins::instance::setup::state::{SetupField, SetupFieldType, SetupState},
};

#[derive(Debug, PartialEq, Args)]
pub(super) struct Setup {
    #[command(flatten)]
    which: ByTeamPlugin,
    /// What is filled in, by the name of the field; `-` is what standard input says
    #[arg(long, value_name = "FIELD=VALUE", value_parser = filled)]
    set: Vec<(String, String)>,
}

fn filled(text: &str) -> Result<(String, String), String> {
    let expected = "the name of a field, `=` and a value, such as `phone=+4712345678`";
    let (field, value) = pair(text, "", expected)?;
    Ok((field.to_owned(), value.to_owned()))
}

pub(super) async fn run(setup: Setup, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let Setup { which: path, mut set } = setup;
    let mut answer = service.at(&BEGIN_SETUP, &path).await?;
    let mut told = None;
    loop {
        let PluginSetup { session, state } = answer.data()?;
        answer = match state {
            SetupState::AwaitingUserInput { fields } => match fill_in(&fields, &mut set) {
                Ok(values) => {
                    let body = SetupValues { session, values };
                    service.send(&SUBMIT_SETUP, &path, &body).await?
                }
                Err(failure) => {
                    cancel(&service, &path, session).await;
                    return Err(failure);
                }
            },
            SetupState::AwaitingExternal {
                ref instructions,
                ref qr_text,
                ref redirect_url,
                poll_interval_ms,
            } => {
                if told.as_ref() != Some(&state) {
                    complain(instructions);
                    redirect_url.iter().for_each(|url| complain(&format!("Open {url}")));
                    qr_text.iter().for_each(|text| complain(&format!("The code says: {text}")));
                }
                told = Some(state);
                tokio::time::sleep(Duration::from_millis(poll_interval_ms)).await;
                service.send(&POLL_SETUP, &path, &SetupSession { session }).await?
            }
            SetupState::Done { .. } => {
                return answer.tell(context.screen, |_| {
                    format!("set up: {} for team {}; it is on", path.key, path.team)
                });
            }
            SetupState::Error { message } => return Err(Failure::new(Exit::Failed, message)),
        };
    }
}

/// Leaves nothing behind; what cannot be told expires.
async fn cancel(service: &Service, path: &ByTeamPlugin, session: String) {
    let _late = service.send(&CANCEL_SETUP, path, &SetupSession { session }).await;
}

/// What the fields are filled in with: as was said, or by the person at the terminal. What was said counts once: a plugin that
/// asks for it again was not content with it.
fn fill_in(
    fields: &[SetupField],
    set: &mut Vec<(String, String)>,
) -> Result<Map<String, Value>, Failure> {
    let mut values = Map::new();
    for field in fields {
        let given = set.iter().position(|(name, _)| *name == field.key);
        let value = match given.map(|place| set.remove(place).1) {
            Some(value) if value == "-" => hidden(&field.label)?,
            Some(value) => value,
            None if io::stdin().is_terminal() => ask(field)?,
            None if field.optional => continue,
            None => {
                let key = &field.key;
                return Err(Failure::usage(format!("{}: say `--set {key}=…`", field.label)));
            }
        };
        if !(field.optional && value.is_empty()) {
            values.insert(field.key.clone(), value.into());
        }
    }
    Ok(values)
}

fn ask(field: &SetupField) -> Result<String, Failure> {
    let hint = match field.kind {
        SetupFieldType::Select => format!(" ({})", field.options.join(", ")),
        _ => field.placeholder.as_ref().map(|text| format!(" ({text})")).unwrap_or_default(),
    };
    let question = format!("{}{hint}:", field.label);
    if field.kind == SetupFieldType::Password {
        return hidden(&question);
    }
    Ok(prompt::line_of(&question)?.trim().to_owned())
}

fn hidden(question: &str) -> Result<String, Failure> {
    let secret = prompt::secret(&format!("{question} "))?;
    let text = std::str::from_utf8(&secret);
    Ok(text.map_err(|_| Failure::usage("expected text"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_filled_in_as_was_said() {
        let field = |key: &str, optional| SetupField {
            key: key.to_owned(),
            label: key.to_owned(),
            kind: SetupFieldType::Text,
            options: Vec::new(),
            placeholder: None,
            optional,
        };
        let mut set = vec![filled("phone=+47=1").unwrap(), filled("note=").unwrap()];
        let fields = [field("phone", false), field("note", true)];

        let values = fill_in(&fields, &mut set).unwrap();

        assert_eq!(Value::Object(values), serde_json::json!({"phone": "+47=1"}));
        assert_eq!(set, [], "it is not sent again to a plugin that asks again");
        assert!(filled("phone").is_err());
    }
}
