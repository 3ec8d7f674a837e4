//! `hivewright init` at a terminal: from a vendor or an address to a model that has answered.

use hivewright_actors::text::{Words, quoted};
use rustyline::{DefaultEditor, error::ReadlineError};
use zeroize::Zeroizing;

use crate::{
    api::models::{ModelTrial, ModelTried},
    cli::{
        blocking::blocking,
        context::Context,
        failure::{Exit, Failure},
        prompt,
        screen::complain,
    },
    doctor::models::try_out,
    settings::{
        providers::Provider,
        scaffold::{KeySource, ModelSettings},
    },
    vault::limit::SHORTEST_SECRET,
};

/// So many models are named.
const SHOWN: usize = 20;

/// A model that a person chose, and its key if they typed one.
pub(super) struct Chosen {
    pub(super) settings: ModelSettings,
    pub(super) key: Option<Zeroizing<String>>,
}

/// Asks which model answers, and lets it answer once. Nothing is written yet.
pub(super) async fn choose(context: &Context) -> Result<Chosen, Failure> {
    complain(
        "Which model answers?\n  \
         anthropic  Claude, with a key of Anthropic\n  \
         openai     GPT, or any server that speaks OpenAI's API, such as Ollama\n  \
         offline    a demo without a model",
    );
    let provider = ask_provider().await?;
    let mut trial = ModelTrial { provider, api_url: None, api_key: None, model: None };
    let mut key = None;
    if provider == Provider::OpenAi {
        trial.api_url = ask("Address of the API [OpenAI's own]: ").await?;
    }
    let variable = provider.key_variable();
    if let Some(variable) = variable {
        trial.api_key = context.environment.get(variable);
        ask_key(variable, &mut trial, &mut key).await?;
    }
    if provider != Provider::Offline {
        ask_model(&mut trial, &mut key).await?;
    }
    let ModelTrial { provider, api_url, model, api_key } = trial;
    let source = match (&key, variable) {
        (Some(_), _) => Some(KeySource::Vault),
        (None, Some(variable)) if api_key.is_some() || api_url.is_none() => {
            Some(KeySource::Variable(variable))
        }
        _ => None,
    };
    Ok(Chosen { settings: ModelSettings { provider, api_url, model, key: source }, key })
}

async fn ask_provider() -> Result<Provider, Failure> {
    loop {
        let answer = ask("Name [offline]: ").await?;
        let name = answer.as_deref().unwrap_or(Provider::Offline.as_str());
        match name.parse() {
            Ok(provider) => return Ok(provider),
            Err(_) => complain(&format!("`{name}` is none of {}", quoted(Provider::WORDS))),
        }
    }
}

/// Asks for a key that the vault can keep. An empty one changes nothing.
async fn ask_key(
    variable: &str,
    trial: &mut ModelTrial,
    key: &mut Option<Zeroizing<String>>,
) -> Result<(), Failure> {
    loop {
        let question = format!("Key, which is not shown [the one in {variable}, if it is set]: ");
        let typed = blocking(move || prompt::ask_hidden(&question)).await?;
        let typed = Zeroizing::new(String::from_utf8_lossy(&typed).trim().to_owned());
        if let (false, Err(fault)) = (typed.is_empty(), check_key(&typed)) {
            complain(&format!("{fault}; press Enter if the server needs none"));
        } else {
            if !typed.is_empty() {
                trial.api_key = Some(typed.to_string());
                *key = Some(typed);
            }
            return Ok(());
        }
    }
}

/// Says what is wrong with a key that could not be sent, or not be kept in the vault.
pub(in crate::cli) fn check_key(key: &str) -> Result<(), String> {
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a key has only printable characters, and no spaces".to_owned());
    }
    if key.len() < SHORTEST_SECRET {
        return Err(format!("a key has at least {SHORTEST_SECRET} characters"));
    }
    Ok(())
}

/// Has models answer until the person is content with one. None is the usual one.
async fn ask_model(
    trial: &mut ModelTrial,
    key: &mut Option<Zeroizing<String>>,
) -> Result<(), Failure> {
    loop {
        complain("· asking it …");
        let mut others = None;
        match try_out(trial).await {
            Ok(tried) => {
                tell(&tried);
                if tried.answer.is_some() {
                    match ask(&format!("Model [{}]: ", tried.model)).await? {
                        Some(name) if name != tried.model => trial.model = Some(name),
                        _ => return Ok(()),
                    }
                    continue;
                }
                // The usual one is not among those of another vendor's server.
                let is_listed = tried.models.contains(&tried.model);
                others = tried.models.into_iter().next().filter(|_| !is_listed);
            }
            Err(error) => complain(&error.to_string()),
        }
        let usual = others.as_ref().map_or(String::new(), |name| format!(" [{name}]"));
        complain(&format!(
            "Type a model to try{usual}, `key` for another key, `yes` to write it all the same, or `no`"
        ));
        let answer = ask("Model: ").await?.or(others);
        match (answer.as_deref(), trial.provider.key_variable()) {
            (Some("yes" | "y"), _) => return Ok(()),
            (Some("no" | "n") | None, _) => {
                return Err(Failure::new(Exit::Interrupted, "nothing was written"));
            }
            (Some("key"), Some(variable)) => ask_key(variable, trial, key).await?,
            (Some(name), _) => trial.model = Some(name.to_owned()),
        }
    }
}

fn tell(ModelTried { model, answer, error, models, unlisted }: &ModelTried) {
    let more = models.len().saturating_sub(SHOWN);
    let names = models.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match (unlisted, more) {
        (Some(why), _) => complain(&format!("· its models are not known: {why}")),
        (None, 0) => complain(&format!("· its models: {names}")),
        (None, more) => complain(&format!("· its models: {names} and {more} more")),
    }
    match (answer, error) {
        (Some(answer), _) => complain(&format!("· `{model}` answered: {answer}")),
        (None, why) => {
            complain(&format!("· `{model}` did not answer: {}", why.as_deref().unwrap_or_default()))
        }
    }
}

/// A line of the person at the terminal, who may edit it; none if it is empty.
async fn ask(question: &str) -> Result<Option<String>, Failure> {
    let question = question.to_owned();
    blocking(move || {
        let cannot = |error: ReadlineError| match error {
            ReadlineError::Interrupted | ReadlineError::Eof => {
                Failure::new(Exit::Interrupted, "nothing was written")
            }
            other => Failure::system("the terminal cannot be used", other),
        };
        let line = DefaultEditor::new().and_then(|mut editor| editor.readline(&question));
        let line = line.map_err(cannot)?.trim().to_owned();
        Ok((!line.is_empty()).then_some(line))
    })
    .await
}
