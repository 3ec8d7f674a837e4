//! Webhook of a plugin's channel: a call of its network, handed to the child. Where the caller proves who it is, that was
//! seen to before.

use std::{sync::Arc, time::Duration};

use hivewright_actors::{
    clock::Clock,
    plugin::records::WebhookCall,
    repeats,
    scheduler::trigger::webhook::Scheme,
    store::{reads::get, records::Writes},
};
use serde_json::Value;

use super::super::{
    TeamPlugin, config,
    wire::{self, RequestError},
};
use crate::{
    plugins::manifest::{ChannelScheme, ChannelWebhook},
    system::WallClock,
    vault::expand::{BEGIN, keys_in},
};

/// How long a child has to answer a call.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// The shortest secret that callers sign with, in bytes.
const SHORTEST_SECRET: usize = 24;

/// The way in for the network of a channel that is switched on.
pub struct Door {
    pub webhook: ChannelWebhook,
    /// How callers sign, and the key of the secret in the team's vault; none if the plugin looks for itself.
    pub signed: Option<(Scheme, String)>,
}

/// Why a call has no answer of the plugin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    #[error("the channel is not ready; try again later")]
    Unavailable,
    #[error("the plugin did not answer as it should")]
    Unanswered,
}

/// A signed call that is being answered: nobody else has it meanwhile. It is let go with this.
pub struct Claim {
    plugin: Arc<TeamPlugin>,
    name: String,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.plugin.state().calls.remove(&self.name);
    }
}

/// Under which path the network of a channel calls.
pub fn path(team: &str, key: &str) -> String {
    format!("/hooks/channels/{team}/{key}")
}

/// What is wrong with the secret of a webhook, in settings whose references are expanded and in those as they are written.
pub(in crate::plugins::instance) fn check_secret(
    webhook: &ChannelWebhook,
    expanded: &Value,
    written: &Value,
) -> Result<(), String> {
    let Some(field) = &webhook.secret_field else { return Ok(()) };
    let at = format!("/channel/{field}");
    let text = |config: &Value| config.pointer(&at).and_then(Value::as_str).map(str::len);
    if text(expanded).unwrap_or(0) < SHORTEST_SECRET {
        return Err(format!(
            "`{at}`: callers of the webhook sign with it, and it has fewer than {SHORTEST_SECRET} bytes"
        ));
    }
    match secret_key(webhook, written) {
        Some(_) => Ok(()),
        None => Err(format!("`{at}`: expected a reference and nothing beside it")),
    }
}

/// The key of the secret that callers sign with.
fn secret_key(webhook: &ChannelWebhook, config: &Value) -> Option<String> {
    let config = config::normalised(config).ok()?;
    let text = config.pointer(&format!("/channel/{}", webhook.secret_field.as_ref()?))?.as_str()?;
    let key = keys_in(text).into_iter().next()?;
    (text == format!("{BEGIN}{key}}}")).then_some(key)
}

impl TeamPlugin {
    /// The address that the network of its channel calls.
    pub fn webhook_url(&self) -> String {
        let base = self.grounds.channels.public_url.trim_end_matches('/');
        format!("{base}{}", path(self.team.name.as_str(), &self.key))
    }

    /// Where its network calls; none if that is nobody's business.
    pub fn door(&self) -> Option<Door> {
        let state = self.state();
        let webhook = state.package.as_ref()?.manifest.channel.as_ref()?.webhook.clone()?;
        let make = state.make.as_ref().filter(|_| state.enabled)?;
        let signed = match &webhook.scheme {
            ChannelScheme::Own(_) => None,
            ChannelScheme::Verified(scheme) => {
                Some((scheme.clone(), secret_key(&webhook, &make.config)?))
            }
        };
        Some(Door { webhook, signed })
    }

    /// Takes a call of this name, unless it is being answered. Whether it was answered before is asked afterwards.
    pub fn claim(self: &Arc<Self>, name: &str) -> Option<Claim> {
        let is_free = self.state().calls.insert(name.to_owned());
        is_free.then(|| Claim { plugin: Arc::clone(self), name: name.to_owned() })
    }

    /// Whether a call of this name was answered before.
    pub async fn knows_call(&self, name: &str) -> Result<bool, String> {
        let key = (self.team.clone(), self.key.clone(), name.to_owned());
        let now = WallClock.now();
        let call = self.grounds.store.read(move |storage| get::<WebhookCall>(storage, &key)).await;
        let call = call.map_err(|error| error.to_string())?;
        Ok(call.is_some_and(|call| repeats::is_known(call.at, now)))
    }

    /// Hands a call to the child. One that was claimed is not handed over again, unless it failed.
    pub async fn call(
        self: &Arc<Self>,
        call: &wire::Webhook,
        claim: Option<&Claim>,
    ) -> Result<wire::WebhookAnswer, CallError> {
        let lease = self.lease().await.map_err(|_| CallError::Unavailable)?;
        let asked = lease.child.request(wire::CHANNEL_WEBHOOK, call, ANSWERED_WITHIN);
        let answer: wire::WebhookAnswer = asked.await.map_err(|error| {
            self.fail(&format!("`{}`: {error}", wire::CHANNEL_WEBHOOK));
            if error == RequestError::Gone { CallError::Unavailable } else { CallError::Unanswered }
        })?;
        if let Some(claim) = claim.filter(|_| (200..300).contains(&answer.status)) {
            let key = (self.team.clone(), self.key.clone(), claim.name.clone());
            let known = WebhookCall { at: WallClock.now() };
            let stored = self.grounds.store.commit(Writes::new().put_at(&key, &known)).await;
            stored.map_err(|error| {
                tracing::error!(team = %self.team.name, plugin = self.key, %error, "a call of a webhook cannot be noted; whoever called is told to try again");
                CallError::Unavailable
            })?;
        }
        Ok(wire::WebhookAnswer { body: self.scrub(&answer.body), ..answer })
    }
}
