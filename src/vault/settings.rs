//! The service's own entries, as settings refer to them.

use super::{Vault, scope::Scope, state::Content};
use crate::settings::references::SystemVault;

impl SystemVault for Vault {
    fn value(&self, key: &str) -> Result<String, String> {
        let state = self.state();
        state.unlocked().map_err(|error| error.to_string())?;
        let add = format!("`hivewright vault set {key} --system` sets it");
        let item = state.find(&Scope::System, key);
        let item = item.ok_or_else(|| format!("there is no such secret; {add}"))?;
        match &item.content {
            Content::Secret(value) => match value.text() {
                Some(text) => Ok(text.to_owned()),
                None => Err("it holds bytes that are no text".to_owned()),
            },
            // Nothing that stands for a credential is kept where it could be shown.
            Content::Public => Err(format!("it is not marked as a secret; {add}")),
            Content::Corrupt => Err(format!("it is corrupt; {add}")),
        }
    }

    fn version(&self) -> u64 {
        Self::version(self)
    }
}
