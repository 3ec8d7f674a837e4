//! What models are told of the forms for triggers.

use schemars::JsonSchema;
use serde_json::{Map, Value};

/// What can be set of a trigger.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Settable {
    /// When it fires, by type. `schedule`: exactly one of `cron` (5 fields, or 6 with leading seconds), `at` (one time,
    /// RFC 3339 or local) and `every` (a duration such as 30m), and `timezone` (IANA, optional). `keyword`: `pattern`, a
    /// text found in any case, or `/expression/flags`; `message`: `pattern`, a regular expression, and `flags`; both:
    /// `channel`, `channels`, `sender` (optional). `window`: `watch` (cron: open in every minute that fits), or `open`
    /// (cron) with `close` (cron) or `duration`; `timezone`, `tick_interval` (30s), `max_ticks_per_window` (1000),
    /// `max_tokens_per_window`, `max_usd_per_window`, `stop_on` (`first_hit`), `backoff`. `webhook`: `secret` (a reference
    /// such as ${vault:KEY}), `scheme` (`standard`, `github` or an object with `header`, `encoding`), `filter`,
    /// `pass_headers`, `rate`, `tolerance`, `max_body`.
    pub(super) config: Option<Map<String, Value>>,
    /// What the team is asked to do, complete in itself. At most 20,000 characters.
    pub(super) task: Option<String>,
    /// Who of the team does it.
    pub(super) subagent: Option<String>,
    /// The most model calls, 1 to 500.
    pub(super) max_steps: Option<u32>,
    /// `high`, `normal` or `low`.
    pub(super) priority: Option<String>,
    /// How long a task may take, 1m to 7d. Left out: 6h.
    pub(super) deadline: Option<String>,
    /// What a firing does while the last task is unfinished: `skip-then-replace`, `always-skip`, `always-replace` or
    /// `allow`.
    pub(super) overlap_policy: Option<String>,
    /// What becomes of times that passed while the service was down, for schedules: `skip`, `once` or `all`.
    pub(super) missed: Option<String>,
    /// So many failures in a row switch it off, 1 to 100. Left out: 3.
    pub(super) failure_threshold: Option<u32>,
    /// The least time between two firings. Left out: 0s.
    pub(super) cooldown: Option<String>,
    /// Whether people hear of runs: `auto` (the run itself decides), `always`, `on_failure` or `never`.
    pub(super) notify: Option<String>,
    /// Where people hear of runs: the id of a channel, or `source` for the conversation this call comes from. Left out:
    /// nowhere.
    pub(super) notify_channel: Option<String>,
    /// In which topic there: its id, or `source`.
    pub(super) notify_topic: Option<String>,
    /// When people are left in peace: `from` and `to` as HH:MM, `timezone` optional.
    pub(super) quiet: Option<Map<String, Value>>,
}

/// A new trigger.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct New {
    /// The team that does the work: a child of yours.
    pub(super) team: String,
    /// Unique in its team: lower-case words joined by `-`.
    pub(super) name: String,
    /// `schedule`, `keyword`, `message`, `window` or `webhook`.
    pub(super) r#type: String,
    /// It fires from the start. Left out: it waits for `enable_trigger`.
    pub(super) enable: Option<bool>,
    /// What it is.
    #[serde(flatten)]
    pub(super) settable: Settable,
}

/// Changes to a trigger.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct Changes {
    /// The team it belongs to.
    pub(super) team: String,
    /// Its name.
    pub(super) trigger_name: String,
    /// Another name.
    pub(super) name: Option<String>,
    /// What changes.
    #[serde(flatten)]
    pub(super) settable: Settable,
}
