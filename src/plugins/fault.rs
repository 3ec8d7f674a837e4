//! Faults of plugin packages: what keeps one from being loaded, with the file and the field that are wrong.

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// What is wrong with a package.
    #[schemars(rename = "PluginFaultCode")]
    pub enum FaultCode {
        /// There is no `plugin.toml`.
        ManifestMissing = "manifest_missing",
        /// The manifest does not say what it must, or says more.
        ManifestInvalid = "manifest_invalid",
        /// The manifest is of another version than this release reads.
        UnsupportedManifestVersion = "unsupported_manifest_version",
        /// The plugin runs in a way that this release does not know.
        UnsupportedRunKind = "unsupported_run_kind",
        /// The plugin needs a newer release.
        NeedsNewerHivewright = "needs_newer_hivewright",
        /// It brings neither tools nor a channel nor hooks.
        NoCapability = "no_capability",
        /// The key is not one, or is reserved.
        KeyInvalid = "key_invalid",
        /// Another plugin has the key.
        KeyTaken = "key_taken",
        /// Another plugin or a team has the namespace.
        NamespaceTaken = "namespace_taken",
        /// The namespace is a name of Hivewright itself.
        NamespaceReserved = "namespace_reserved",
        /// There is no such hook event.
        HookEventUnknown = "hook_event_unknown",
        /// The schema of its settings cannot be used.
        SchemaInvalid = "schema_invalid",
        /// It wants a variable that no plugin gets.
        EnvForbidden = "env_forbidden",
        /// A path leads out of its folder.
        PathEscape = "path_escape",
        /// What it runs is not there.
        EntryMissing = "entry_missing",
        /// It has more tools than a plugin may.
        TooManyTools = "too_many_tools",
        /// Its files are not those that were agreed to.
        DigestMismatch = "digest_mismatch",
        /// Nobody has signed it, and the settings require that somebody has.
        SignatureMissing = "signature_missing",
        /// Its signature is not one of these files by a trusted key, and the settings require that.
        SignatureBad = "signature_bad",
    }
}

/// Why a package is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[schemars(rename = "PluginFault", description = "What is wrong with a plugin.")]
#[error("{code}: {file}{}{field}: {reason}", if field.is_empty() { "" } else { ", " })]
pub struct Fault {
    pub code: FaultCode,
    // From the package's folder.
    pub file: String,
    // Empty if it is the whole file.
    pub field: String,
    pub reason: String,
}

impl Fault {
    pub fn new(
        code: FaultCode,
        file: impl Into<String>,
        field: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self { code, file: file.into(), field: field.into(), reason: reason.into() }
    }
}
