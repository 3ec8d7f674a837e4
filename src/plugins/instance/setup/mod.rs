//! Setup wizard of a plugin's channel: steps that the plugin describes, in a child of its own, until there are settings.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{clock::millis, excerpt};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{Mutex, oneshot},
    time::Instant,
};
use zeroize::Zeroizing;

pub mod state;

use state::{SetupError, SetupState, check};

use super::{TeamPlugin, child::Child, config, errors::Lines, recipe, wire};
use crate::{mcp::definition::shown, plugins::package::Package, scrub::Scrubber};

/// A wizard that nobody goes on with for so long has ended.
const EXPIRES_AFTER: Duration = Duration::from_secs(600);
/// How long a child has for a step.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it has to hear that it was cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest words of a step, in characters.
const LONGEST_WORDS: usize = 4_000;

/// What is done in a wizard.
#[derive(Debug)]
pub enum SetupStep {
    Poll,
    Submit(Map<String, Value>),
}

/// Where a wizard stands, with the settings once it is done.
#[derive(Debug)]
pub struct SetupProgress {
    pub session: String,
    pub state: SetupState,
    /// The `channel` part of the plugin's settings.
    pub config: Option<Map<String, Value>>,
}

pub(super) struct Wizard {
    session: String,
    package: Arc<Package>,
    child: Child,
    lines: Lines,
    /// Held during a step: they follow one another.
    steps: Mutex<Steps>,
}

struct Steps {
    state: SetupState,
    touched: Instant,
    /// What was filled in and must not be seen.
    passwords: Vec<Zeroizing<String>>,
}

impl Steps {
    fn hidden(&self) -> Scrubber {
        Scrubber::new(self.passwords.iter().map(|password| password.as_str()))
    }
}

impl TeamPlugin {
    fn wizard(&self) -> Option<Arc<Wizard>> {
        self.state().wizard.clone()
    }

    /// Where the wizard that runs stands; none while it is at a step.
    pub fn setup(&self) -> Option<(String, SetupState)> {
        let wizard = self.wizard()?;
        let state = wizard.steps.try_lock().ok()?.state.clone();
        Some((wizard.session.clone(), state))
    }

    /// Begins a wizard. One that runs already ends.
    pub async fn begin_setup(
        self: &Arc<Self>,
        package: &Arc<Package>,
    ) -> Result<SetupProgress, SetupError> {
        if !package.manifest.channel.as_ref().is_some_and(|channel| channel.setup) {
            return Err(SetupError::None);
        }
        self.state().wizard = None;
        let (begun, child) = oneshot::channel();
        let (plugin, of) = (Arc::clone(self), Arc::clone(package));
        self.thread.spawn(async move {
            // Whoever began it may have gone.
            let _gone = begun.send(recipe::start_setup(&plugin, &of).await);
        });
        let stopping = |_| SetupError::Plugin("the service is stopping".to_owned());
        let child = child.await.map_err(stopping)?;
        let (child, lines) =
            child.map_err(|fault| SetupError::Plugin(self.clean(&fault.reason)))?;
        let steps = Steps {
            state: SetupState::AwaitingUserInput { fields: Vec::new() },
            touched: Instant::now(),
            passwords: Vec::new(),
        };
        let wizard = Arc::new(Wizard {
            session: format!("setup-{:016x}", self.grounds.ids.bits()),
            package: Arc::clone(package),
            child,
            lines,
            steps: Mutex::new(steps),
        });
        self.state().wizard = Some(Arc::clone(&wizard));
        self.thread.spawn(Arc::clone(self).expire(wizard.session.clone()));
        let mut steps = wizard.steps.lock().await;
        self.step(&wizard, &mut steps, wire::SETUP_BEGIN, None).await
    }

    /// Does a step of the wizard of a session.
    pub async fn go_on_with_setup(
        self: &Arc<Self>,
        session: &str,
        step: SetupStep,
    ) -> Result<SetupProgress, SetupError> {
        let wizard = self.wizard().filter(|wizard| wizard.session == session);
        let wizard = wizard.ok_or(SetupError::Unknown)?;
        let mut steps = wizard.steps.lock().await;
        match (step, steps.state.clone()) {
            (SetupStep::Poll, SetupState::AwaitingExternal { .. }) => {
                self.step(&wizard, &mut steps, wire::SETUP_POLL, None).await
            }
            (SetupStep::Poll, state) => {
                Ok(SetupProgress { session: session.to_owned(), state, config: None })
            }
            (SetupStep::Submit(values), SetupState::AwaitingUserInput { fields }) => {
                let passwords = check(&fields, &values)?;
                steps.passwords.extend(passwords);
                wizard.lines.hide(steps.hidden());
                self.step(&wizard, &mut steps, wire::SETUP_SUBMIT, Some(&values)).await
            }
            (SetupStep::Submit(_), _) => Err(SetupError::WrongState),
        }
    }

    /// Ends the wizard of a session; the plugin hears of it if it listens.
    pub async fn cancel_setup(
        self: &Arc<Self>,
        session: &str,
    ) -> Result<SetupProgress, SetupError> {
        let wizard = self.end_setup(session).ok_or(SetupError::Unknown)?;
        let cancel = wire::Setup { session, values: None, deadline_ms: millis(CANCEL_TIMEOUT) };
        let told = wizard.child.request::<Value>(wire::SETUP_CANCEL, &cancel, CANCEL_TIMEOUT);
        // It ends, whatever it says.
        let _ = told.await;
        let state = SetupState::Error { message: "The setup was cancelled.".to_owned() };
        Ok(SetupProgress { session: session.to_owned(), state, config: None })
    }

    /// Takes the wizard of a session away, which ends its child once nobody is at a step.
    fn end_setup(self: &Arc<Self>, session: &str) -> Option<Arc<Wizard>> {
        let mut state = self.state();
        let is_meant = state.wizard.as_ref().is_some_and(|wizard| wizard.session == session);
        let ended = if is_meant { state.wizard.take() } else { None };
        drop(state);
        if ended.is_some() {
            self.changed();
        }
        ended
    }

    /// Ends a wizard that nobody goes on with.
    async fn expire(self: Arc<Self>, session: String) {
        loop {
            let wizard = self.wizard().filter(|wizard| wizard.session == session);
            let Some(wizard) = wizard else { return };
            let due = wizard.steps.lock().await.touched + EXPIRES_AFTER;
            drop(wizard);
            if due <= Instant::now() {
                self.end_setup(&session);
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }

    /// Asks the child for a step. One that ends the wizard leaves nothing of it.
    async fn step(
        self: &Arc<Self>,
        wizard: &Wizard,
        steps: &mut Steps,
        method: &'static str,
        values: Option<&Map<String, Value>>,
    ) -> Result<SetupProgress, SetupError> {
        let asked =
            wire::Setup { session: &wizard.session, values, deadline_ms: millis(STEP_TIMEOUT) };
        let answered = wizard.child.request(method, &asked, STEP_TIMEOUT).await;
        steps.touched = Instant::now();
        let hidden = steps.hidden();
        let clean = |text: &str| {
            let text = hidden.scrub(&self.scrub(&shown(text))).into_owned();
            match excerpt::split(&text, LONGEST_WORDS) {
                (text, 0) => text.to_owned(),
                (text, _) => format!("{text} …"),
            }
        };
        let state = match answered {
            Ok(wire::SetupAnswer { state }) => state.checked(&clean),
            Err(error) => SetupState::Error { message: clean(&error.to_string()) },
        };
        let (state, config) = match state {
            SetupState::Done { config } => {
                let whole = json!({ "channel": config });
                let seen = config::in_the_clear(&wizard.package.schema, &whole, &hidden);
                match seen.first() {
                    None => (SetupState::Done { config: Map::new() }, Some(config)),
                    Some(pointer) => {
                        let message = format!(
                            "The plugin puts a password into `{pointer}`, which is no secret setting."
                        );
                        (SetupState::Error { message }, None)
                    }
                }
            }
            state => (state, None),
        };
        steps.state = state.clone();
        if matches!(state, SetupState::Done { .. } | SetupState::Error { .. }) {
            self.end_setup(&wizard.session);
        } else {
            self.changed();
        }
        Ok(SetupProgress { session: wizard.session.clone(), state, config })
    }
}
